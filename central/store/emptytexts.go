package store

import "strings"

// EmptyTexts names the text fields of a row that are empty in the way in which Ironic's may be: "",
// which is another thing than null. A row has none or few of them. What asks a column
// whether it has something needs not know of it: neither has.
type EmptyTexts string

// Has reports whether a field is empty and not null. The caller knows that it has no text.
func (e *EmptyTexts) Has(field string) bool {
	return *e != "" && strings.Contains(","+string(*e)+",", ","+field+",")
}

// Set notes that a field is "", or no longer.
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
