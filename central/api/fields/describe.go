package fields

import "github.com/ironyard/ironyard/central/api/microversion"

// Description is what documents tell of a field.
type Description struct {
	Name                        string
	Since                       microversion.Version
	Type, Format                string // of JSON Schema; an empty type: any
	Post, Patch, Required, List bool
	Sort                        bool
}

// Describe returns every field, in the order of answers.
func (t *Table[T]) Describe() []Description {
	list := make([]Description, len(t.fields))
	for at, i := range t.order {
		f := &t.fields[i]
		list[at] = Description{f.Name, f.Since, f.Type, f.Format, f.CanPost, f.CanPatch, f.Required, f.InList, f.SortKey}
	}
	return list
}

// Resource is what an item is.
func (t *Table[T]) Resource() string { return t.resource }
