package store

import "strings"

// EmptyTexts names the fields of a row that hold the rarer of Ironic's two nothings: a text that is
// "" and not null, a boolean that is null and not false. A row has none or few of them. What asks
// a column whether it has something needs not know of it: neither has.
type EmptyTexts string

// Has reports whether a field holds the rarer nothing. The caller knows that it is
// a text that is empty or a boolean that is false.
func (e *EmptyTexts) Has(field string) bool {
	return *e != "" && strings.Contains(","+string(*e)+",", ","+field+",")
}

// Set notes that a field holds the rarer nothing, or no longer.
func (e *EmptyTexts) Set(field string, empty bool) {
	if empty == e.Has(field) {
		return
	}
	var list []string
	for name := range strings.SplitSeq(string(*e), ",") {
		if name != "" && name != field {
			list = append(list, name)
		}
	}
	if empty {
		list = append(list, field)
	}
	*e = EmptyTexts(strings.Join(list, ","))
}
