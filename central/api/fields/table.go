package fields

import (
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
)

// Table is all fields of a resource, in the order of its answers.
type Table[T any] struct {
	resource string // "deploy template"
	called   string // what errors about its values call it
	fields   []Field[T]
	index    map[string]int
	strict   bool
	columns  map[string]string
	choices  []string
	// all and short are the selections by version.
	all, short [microversion.Max + 1]Selection
}

// New makes the table of a resource.
func New[T any](resource string, list ...Field[T]) *Table[T] {
	t := &Table[T]{resource: resource, called: resource, fields: list, index: make(map[string]int, len(list))}
	for i, f := range list {
		if _, twice := t.index[f.Name]; twice {
			panic("fields: " + resource + " has two fields " + f.Name)
		}
		t.index[f.Name] = i
	}
	for v := microversion.Min; v <= microversion.Max; v++ {
		if slices.ContainsFunc(list, func(f Field[T]) bool { return f.Since == v }) || v == microversion.Min {
			t.all[v] = t.pick(v, func(*Field[T]) bool { return true })
			t.short[v] = t.pick(v, func(f *Field[T]) bool { return f.InList })
			t.short[v].Chosen = true
			continue
		}
		t.all[v], t.short[v] = t.all[v-1], t.short[v-1]
	}
	return t
}

// Called gives an item the name that it has in Ironic's errors about values; empty: none.
func (t *Table[T]) Called(name string) *Table[T] { t.called = name; return t }

// Strict lets no PATCH take away a field that is newer than it, and no POST say that it is null.
func (t *Table[T]) Strict() *Table[T] { t.strict = true; return t }

// Columns names what Ironic's database has besides the fields, and what a list is sorted by
// whose sort key it is: its own numbers, which no answer shows, become the order in which
// rows were made (id), or that of the UUIDs for which they stand.
func (t *Table[T]) Columns(columns map[string]string) *Table[T] { t.columns = columns; return t }

// Column is what a list is sorted by for a sort key that CheckSort has admitted; empty: by
// the time at which rows were made.
func (t *Table[T]) Column(key string) string {
	if column, ok := t.columns[key]; ok {
		key = column
	}
	if key == "id" {
		return ""
	}
	return key
}

// Lookup returns a field by name.
func (t *Table[T]) Lookup(name string) (*Field[T], bool) {
	i, ok := t.index[name]
	if !ok {
		return nil, false
	}
	return &t.fields[i], true
}

// Selection is the fields of one answer, as indices into the table. It never changes.
type Selection struct {
	columns []int
	// Chosen: the request named fields, so links to sub-resources are left out, but for those
	// that it named.
	Chosen bool
	// Below: it named the links to what belongs to the item.
	Below bool
}

// Has reports whether the answer shows a field.
func (t *Table[T]) Has(s Selection, name string) bool {
	i, ok := t.index[name]
	return ok && slices.Contains(s.columns, i)
}

// All selects every field that version v knows.
func (t *Table[T]) All(v microversion.Version) Selection { return t.all[v] }

// Short selects the fields of a list that asks for none.
func (t *Table[T]) Short(v microversion.Version) Selection { return t.short[v] }

// Names are the names of the fields of s, for a request that may ask for others; nil where s
// is not a choice of fields.
func (t *Table[T]) Names(s Selection) []string {
	if !s.Chosen {
		return nil
	}
	names := make([]string, len(s.columns))
	for i, at := range s.columns {
		names[i] = t.fields[at].Name
	}
	return names
}

func (t *Table[T]) pick(v microversion.Version, want func(*Field[T]) bool) Selection {
	var s Selection
	for i := range t.fields {
		if f := &t.fields[i]; f.Since <= v && want(f) {
			s.columns = append(s.columns, i)
		}
	}
	return s
}

// Choose selects fields by name: 400 for unknown ones, 406 for those that are
// newer than v. "links" is always shown and may be named.
func (t *Table[T]) Choose(v microversion.Version, names []string) (Selection, error) {
	s := Selection{Chosen: true}
	if err := t.checkNames(v, names); err != nil {
		return s, err
	}
	for _, name := range names {
		i, ok := t.index[name]
		if !ok { // links stand beside the fields
			s.Below = s.Below || name != "links"
			continue
		}
		if since := t.fields[i].Since; since > v && !t.fields[i].Admits(Asking) {
			return s, wire.NotAcceptable("Field "+name, since)
		}
		s.columns = append(s.columns, i)
	}
	return s, nil
}

// links are what an answer shows of links, to itself and to sub-resources.
var links = []string{"links", "nodes", "ports"}

// checkNames refuses names that are no field's.
func (t *Table[T]) checkNames(v microversion.Version, names []string) error {
	var unknown []string
	for _, name := range names {
		i, ok := t.index[name]
		switch {
		case ok && !t.fields[i].unheard(v) || slices.Contains(links, name) && (name == "links" || slices.Contains(t.choices, name)):
		default:
			unknown = append(unknown, name)
		}
	}
	switch {
	case unknown == nil:
		return nil
	case t.choices != nil && !slices.Contains(t.choices, unknown[0]):
		return wire.Invalid("Schema error: '%.80s' is not one of ['%s']", unknown[0], strings.Join(t.choices, "', '"))
	}
	return wire.Invalid("Field(s) \"%.400s\" are not valid", strings.Join(unknown, ", "))
}

// Choices are the names that a request may choose fields by, as Ironic lists them where it
// refuses another one. Those of links to sub-resources, which are among them, choose nothing.
func (t *Table[T]) Choices(names ...string) *Table[T] { t.choices = names; return t }

// CheckSort admits a sort key: 400 for unknown and unsortable fields, 406 for newer ones.
func (t *Table[T]) CheckSort(v microversion.Version, key string) error {
	if _, hidden := t.columns[key]; hidden || key == "id" {
		return nil
	}
	f, ok := t.Lookup(key)
	if !ok {
		return wire.Invalid("The sort_key value \"%.80s\" is an invalid field for sorting", key)
	}
	if f.Since > v && !f.Admits(Sorting) {
		return wire.NotAcceptable("Sorting by "+key, f.Since)
	}
	switch {
	case f.SortKey:
	case f.Type == "object":
		return wire.Invalid("The sort_key value %s is an invalid field for sorting", key)
	default:
		return wire.Invalid("The sort_key value \"%s\" is an invalid field for sorting", key)
	}
	return nil
}

// Append appends the selected fields of obj, without braces.
func (t *Table[T]) Append(b []byte, s Selection, obj *T) []byte {
	for _, i := range s.columns {
		f := &t.fields[i]
		b = wire.AppendName(b, f.Name)
		if f.Put != nil {
			b = f.Put(b, obj)
		} else {
			b = wire.AppendValue(b, f.Get(obj))
		}
	}
	return b
}
