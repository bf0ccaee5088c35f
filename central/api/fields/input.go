package fields

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
)

// Create fills obj from the body of a POST. Unknown fields and wrong values are
// 400, fields that are newer than v 406 unless they are null, which says nothing.
// Nothing is set unless everything passes.
func (t *Table[T]) Create(v microversion.Version, body map[string]any, obj *T) error {
	names := sortedKeys(body)
	for i := range t.fields {
		f := &t.fields[i]
		if value, given := body[f.Name]; f.Required && value == nil {
			if given {
				return t.null(f)
			}
			return t.invalid("'%s' is a required property", f.Name)
		}
	}
	for _, name := range names {
		if i, ok := t.index[name]; !ok || !t.fields[i].CanPost || t.fields[i].unheard(v) {
			return t.invalid("Additional properties are not allowed ('%.80s' was unexpected)", name)
		}
	}
	values := make(map[int]any, len(body))
	for _, name := range names {
		i := t.index[name]
		f := &t.fields[i]
		if f.Since > v && body[name] != nil {
			return wire.NotAcceptable("Field "+name, f.Since)
		}
		if body[name] == nil && f.Solid {
			return t.null(f)
		}
		value, err := t.check(f, body[name])
		if err != nil {
			return err
		}
		if f.Required && value == nil {
			return t.invalid("'%s' is a required property", name)
		}
		values[i] = value
	}
	for i, value := range values {
		t.fields[i].Set(obj, value)
	}
	return nil
}

// Update applies the operations of a PATCH to obj and returns the names of the
// fields that they touch. What only removes a field may be older than the field, unless
// the table is strict.
// Nothing is set unless everything passes.
func (t *Table[T]) Update(v microversion.Version, ops []patch.Op, obj *T) (touched []string, err error) {
	for i := range ops {
		root := ops[i].Root()
		f, known := t.Lookup(root)
		switch {
		case !known || !f.CanPatch || f.unheard(v):
			return nil, wire.Invalid("Cannot patch %.200s. Only the following can be updated: %s", ops[i].Path, strings.Join(t.patchable(v), ", "))
		case f.Since > v && (t.strict || ops[i].Kind != patch.Remove || !ops[i].Whole()) && (i == 0 || !f.FirstGuards):
			return nil, wire.NotAcceptable("Field "+root, f.Since)
		case f.Solid && ops[i].Whole() && ops[i].Kind != patch.Remove && ops[i].Value == nil:
			return nil, t.null(f)
		}
		if !slices.Contains(touched, root) {
			touched = append(touched, root)
		}
	}
	doc := make(map[string]any, len(touched))
	for _, name := range touched {
		f, _ := t.Lookup(name)
		doc[name] = f.stored(obj)
	}
	for _, op := range ops {
		if err := patch.Apply(doc, op); err != nil {
			return nil, err
		}
	}
	for _, name := range touched {
		f, _ := t.Lookup(name)
		value, err := t.check(f, doc[name])
		if err != nil {
			return nil, err
		}
		if f.Required && value == nil {
			return nil, wire.Invalid("Schema error for patch: '%s' is a required property", name)
		}
		doc[name] = value
	}
	for _, name := range touched {
		f, _ := t.Lookup(name)
		f.Set(obj, doc[name])
	}
	return touched, nil
}

// Same reports whether a and b do not differ in any field that a PATCH may set.
func (t *Table[T]) Same(a, b *T) bool {
	for i := range t.fields {
		if f := &t.fields[i]; f.CanPatch && !bytes.Equal(wire.AppendValue(nil, f.stored(a)), wire.AppendValue(nil, f.stored(b))) {
			return false
		}
	}
	return true
}

func (f *Field[T]) stored(obj *T) any {
	get := f.Get
	if f.Stored != nil {
		get = f.Stored
	}
	return patch.Clone(get(obj))
}

// null refuses null where a field is solid.
func (t *Table[T]) null(f *Field[T]) error {
	return t.invalid("%s: None is not of type '%s'", f.Name, cmp.Or(f.Type, "array")) // lists name none
}

func (t *Table[T]) check(f *Field[T], v any) (any, error) {
	v, err := f.Check(v)
	if err == nil {
		return v, nil
	}
	if own, ok := errors.AsType[*wire.Error](err); ok {
		return nil, own
	}
	if no, ok := errors.AsType[*notBoolean](err); ok {
		return nil, wire.Invalid("Invalid %s: %v", f.Name, no)
	}
	return nil, t.invalid("%s: %v", f.Name, err)
}

// unheard reports whether requests of version v do not know the field.
func (f *Field[T]) unheard(v microversion.Version) bool { return f.Silent && f.Since > v }

func (t *Table[T]) patchable(v microversion.Version) []string {
	var names []string
	for i := range t.fields {
		if f := &t.fields[i]; f.CanPatch && !f.unheard(v) {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (t *Table[T]) invalid(format string, args ...any) error {
	return wire.Errorf(http.StatusBadRequest, "Schema error for "+t.resource+": "+format, args...)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
