package fields

import (
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
)

// Table is all fields of a resource.
type Table[T any] struct {
	resource string // "deploy template"
	called   string // what errors about its values call it
	fields   []Field[T]
	index    map[string]int
	strict   bool
	singly   bool
	columns  map[string]string
	choices  []string
	dated    bool // see Dated
	// order is how answers show the fields, as indices; those from behind on come after the links.
	order  []int
	behind int
	asked  []string // see AsAsked
	later  []string // see Later
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
		t.order = append(t.order, i)
	}
	t.behind = len(list)
	t.choose()
	return t
}

// choose makes the selections by version.
func (t *Table[T]) choose() {
	for v := microversion.Min; v <= microversion.Max; v++ {
		if slices.ContainsFunc(t.fields, func(f Field[T]) bool { return f.Since == v }) || v == microversion.Min {
			t.all[v] = t.pick(v, func(*Field[T]) bool { return true })
			t.short[v] = t.pick(v, func(f *Field[T]) bool { return f.InList })
			t.short[v].Chosen = true
			if t.asked != nil {
				t.arrange(&t.short[v], t.asked)
			}
			continue
		}
		t.all[v], t.short[v] = t.all[v-1], t.short[v-1]
	}
}

// Order names all fields in the order of answers, and with "links" the place of the links to
// the item itself. Without it answers show the fields as New lists them, and links last.
func (t *Table[T]) Order(names ...string) *Table[T] {
	order := make([]int, 0, len(t.fields))
	for _, name := range names {
		i, known := t.index[name]
		switch {
		case name == "links":
			t.behind = len(order)
		case !known || slices.Contains(order, i):
			panic("fields: the order of a " + t.resource + " names " + name + " twice, or without there being one")
		default:
			order = append(order, i)
		}
	}
	if len(order) != len(t.fields) {
		panic("fields: the order of a " + t.resource + " leaves fields out")
	}
	t.order = order
	t.choose()
	return t
}

// AsAsked shows fields that a request chooses as it names them, where they come neither
// first in each answer, as the item's UUID and times do, nor after the links. Lists that ask
// for no fields show theirs as if the request had named short.
func (t *Table[T]) AsAsked(short ...string) *Table[T] {
	t.asked = short
	t.choose()
	return t
}

// Called gives an item the name that it has in Ironic's errors about values; empty: none.
func (t *Table[T]) Called(name string) *Table[T] { t.called = name; return t }

// Later names fields that a refusal of a PATCH lists behind the others, in this order: those that
// Ironic got later.
func (t *Table[T]) Later(names ...string) *Table[T] { t.later = names; return t }

// Strict lets no PATCH take away a field that is newer than it, and no POST say that it is null.
func (t *Table[T]) Strict() *Table[T] { t.strict = true; return t }

// Singly says of the first only of the fields that a request asks for and nobody has that it is
// none.
func (t *Table[T]) Singly() *Table[T] { t.singly = true; return t }

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
	columns []int // in the order of the answer
	behind  int   // columns from here on come after the links
	named   []int // as the request named them; nil: it named none
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
	columns := s.columns
	if s.named != nil {
		columns = s.named
	}
	names := make([]string, len(columns))
	for i, at := range columns {
		names[i] = t.fields[at].Name
	}
	return names
}

func (t *Table[T]) pick(v microversion.Version, want func(*Field[T]) bool) Selection {
	var s Selection
	for at, i := range t.order {
		if f := &t.fields[i]; f.Since <= v && want(f) {
			s.columns = append(s.columns, i)
			if at < t.behind {
				s.behind = len(s.columns)
			}
		}
	}
	return s
}

// Choose selects fields by name: 400 for unknown ones, 406 for those that are
// newer than v. "links" is always shown, and may be named where it is a choice.
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
	t.arrange(&s, names)
	return s, nil
}

// arrange puts the columns of s, in whichever order, into the one of an answer to a request
// that named them so.
func (t *Table[T]) arrange(s *Selection, names []string) {
	slices.SortFunc(s.columns, func(a, b int) int {
		return slices.Index(names, t.fields[a].Name) - slices.Index(names, t.fields[b].Name)
	})
	s.named = slices.Clone(s.columns)
	slices.SortStableFunc(s.columns, func(a, b int) int { return t.rank(a) - t.rank(b) })
	s.behind = len(s.columns)
	for s.behind > 0 && slices.Index(t.order, s.columns[s.behind-1]) >= t.behind {
		s.behind--
	}
}

// first are the fields that come first in answers, also in those that show chosen fields as asked.
var first = []string{"uuid", "created_at", "updated_at"}

// rank says where a chosen field stands. Those of one rank stand as the request names them.
func (t *Table[T]) rank(i int) int {
	at := slices.Index(t.order, i)
	if t.asked != nil && at < t.behind && !slices.Contains(first, t.fields[i].Name) {
		return t.behind - 1
	}
	return at
}

// links are what an answer shows of links, to itself and to sub-resources.
var links = []string{"links", "nodes", "ports"}

// checkNames refuses names that are no field's.
func (t *Table[T]) checkNames(v microversion.Version, names []string) error {
	var unknown []string
	for _, name := range names {
		i, ok := t.index[name]
		switch {
		case ok && !t.fields[i].unheard(v) && !t.undated(name, v):
		case slices.Contains(links, name) && slices.Contains(t.choices, name) || name == "links" && t.choices == nil && !t.singly:
		default:
			unknown = append(unknown, name)
		}
	}
	if unknown == nil {
		return nil
	}
	choices := slices.DeleteFunc(slices.Clone(t.choices), func(name string) bool { return t.undated(name, v) })
	if choices != nil && !slices.Contains(choices, unknown[0]) {
		return wire.Invalid("Schema error: '%.80s' is not one of ['%s']", unknown[0], strings.Join(choices, "', '"))
	}
	if t.singly {
		return wire.Invalid("Field %.80s is not a valid field.", unknown[0])
	}
	return wire.Invalid("Field(s) \"%.400s\" are not valid", strings.Join(unknown, ", "))
}

// Choices are the names that a request may choose fields by, as Ironic lists them where it
// refuses another one. Those of links to sub-resources, which are among them, choose nothing.
func (t *Table[T]) Choices(names ...string) *Table[T] { t.choices = names; return t }

// Dated gives each version choices of its own: to ask for a field that is newer than the request
// is to ask for none of the fields (400), where it is otherwise too new (406).
func (t *Table[T]) Dated() *Table[T] { t.dated = true; return t }

// undated reports whether the choices of version v lack the field of that name.
func (t *Table[T]) undated(name string, v microversion.Version) bool {
	i, known := t.index[name]
	return t.dated && known && t.fields[i].Since > v
}

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
	case f.Type == "object" || f.Type == "array":
		return wire.Invalid("The sort_key value %s is an invalid field for sorting", key)
	default:
		return wire.Invalid("The sort_key value \"%s\" is an invalid field for sorting", key)
	}
	return nil
}

// Append appends the selected fields of obj, without braces and links.
func (t *Table[T]) Append(b []byte, s Selection, obj *T) []byte {
	return t.AppendBehind(t.AppendBefore(b, s, obj), s, obj)
}

// AppendLinked appends the selected fields of obj without braces, and in their place the links
// to it, at path below base (wire.AppendLinks).
func (t *Table[T]) AppendLinked(b []byte, s Selection, obj *T, base string, path ...string) []byte {
	b = t.AppendBefore(b, s, obj)
	b = wire.AppendLinks(wire.AppendName(b, "links"), base, path...)
	return t.AppendBehind(b, s, obj)
}

// AppendBefore appends those of the selected fields of obj that come before its links.
func (t *Table[T]) AppendBefore(b []byte, s Selection, obj *T) []byte {
	return t.append(b, s.columns[:s.behind], obj)
}

// AppendBehind appends those of the selected fields of obj that come after its links.
func (t *Table[T]) AppendBehind(b []byte, s Selection, obj *T) []byte {
	return t.append(b, s.columns[s.behind:], obj)
}

func (t *Table[T]) append(b []byte, columns []int, obj *T) []byte {
	for _, i := range columns {
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
