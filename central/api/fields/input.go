package fields

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
)

// Create fills obj from the body of a POST. Unknown fields and wrong values are
// 400, fields that are newer than v 406, unless they are null, which says nothing (in a
// strict table, and where NullSays, it does).
// Nothing is set unless everything passes.
func (t *Table[T]) Create(v microversion.Version, body map[string]any, obj *T) error {
	return t.CreateBelow(v, body, obj, nil)
}

// CreateBelow is Create for what belongs to something else. Where a field is too new, or a rule
// speaks against its value, found is asked before that is said whether what it belongs to is
// there, as Ironic looks at values first, then at that, and at versions last; nil: there is
// nothing to ask for.
func (t *Table[T]) CreateBelow(v microversion.Version, body map[string]any, obj *T, found func(*T) error) error {
	names := sortedKeys(body)
	values := make(map[int]any, len(body))
	tooNew, wrong := -1, faults{first: t.called == "", outer: t.admit(v, names, body)}
	for _, name := range names {
		i, known := t.index[name]
		if !known || !t.fields[i].CanPost {
			continue // admit has seen it
		}
		f := &t.fields[i]
		if tooNew < 0 && f.Since > v && (body[name] != nil || t.strict || f.NullSays) && !f.Admits(Posting) {
			tooNew = i
		}
		if body[name] == nil && (f.Solid || f.Required) {
			wrong.schema(name, t.null(t.called, f), false)
			continue
		}
		if value, ok := t.check(&wrong, t.called, f, body[name]); ok {
			values[i] = value
		}
	}
	if err := wrong.told(); err != nil {
		return err
	}
	rule := wrong.rule.err
	filled := *obj
	for i, value := range values {
		t.fields[i].Set(&filled, value)
	}
	if found != nil && (tooNew >= 0 || rule != nil) {
		if err := found(&filled); err != nil {
			return err
		}
	}
	if tooNew >= 0 {
		return wire.NotAcceptable("Field "+t.fields[tooNew].Name, t.fields[tooNew].Since)
	}
	if rule != nil {
		return rule
	}
	*obj = filled
	return nil
}

// admit refuses a body that lacks what it must have, or has what it may not.
func (t *Table[T]) admit(v microversion.Version, names []string, body map[string]any) error {
	for i := range t.fields {
		if f := &t.fields[i]; f.Required {
			if _, given := body[f.Name]; !given {
				return t.invalid("'%s' is a required property", f.Name)
			}
		}
	}
	var unexpected []string
	for _, name := range names {
		if i, ok := t.index[name]; !ok || !t.fields[i].CanPost || t.fields[i].unheard(v) {
			unexpected = append(unexpected, name)
		}
	}
	if unexpected == nil {
		return nil
	}
	return t.invalid("%s", NotAllowed(unexpected))
}

// Update applies the operations of a PATCH to obj and returns the names of the
// fields that they touch: Admit, then Apply.
// Nothing is set unless everything passes.
func (t *Table[T]) Update(v microversion.Version, ops []patch.Op, obj *T) (touched []string, err error) {
	if touched, err = t.Admit(v, ops); err != nil {
		return nil, err
	}
	return touched, t.Apply(ops, touched, obj)
}

// Admit refuses operations that are wrong whatever the item is like, because of what they are
// about, and returns the names of the fields that the others touch: first those about what nobody
// may change, then those about fields that are newer than v. What only removes a field, or is about
// something inside of it, may be older than the field, unless the table is strict.
func (t *Table[T]) Admit(v microversion.Version, ops []patch.Op) (touched []string, err error) {
	for i := range ops {
		if f, known := t.Lookup(ops[i].Root()); !known || !f.CanPatch || f.unheard(v) {
			return nil, wire.Invalid("Cannot patch %.200s. Only the following can be updated: %s", ops[i].Path, strings.Join(t.patchable(v), ", "))
		}
	}
	for i := range ops {
		root := ops[i].Root()
		f, _ := t.Lookup(root)
		switch {
		case f.Since > v && !f.Admits(Patching) && (t.strict || ops[i].Kind != patch.Remove && ops[i].Whole()) && (i == 0 || !f.FirstGuards):
			return nil, wire.NotAcceptable("Field "+root, f.Since)
		case f.Solid && ops[i].Whole() && ops[i].Kind != patch.Remove && ops[i].Value == nil:
			return nil, t.null(patched, f)
		}
		if !slices.Contains(touched, root) {
			touched = append(touched, root)
		}
	}
	return touched, nil
}

// Apply applies operations that were admitted, which touch the named fields, to obj.
// Nothing is set unless everything passes.
func (t *Table[T]) Apply(ops []patch.Op, touched []string, obj *T) error {
	doc := make(map[string]any, len(touched))
	for _, name := range touched {
		f, _ := t.Lookup(name)
		doc[name] = f.stored(obj)
	}
	for _, op := range ops {
		if err := patch.Apply(doc, op); err != nil {
			return err
		}
	}
	var wrong faults
	for _, name := range touched {
		f, _ := t.Lookup(name)
		if doc[name] == nil && f.Stays && !becomesNull(ops, name) {
			doc[name] = f.stored(obj)
		}
		if f.Required && doc[name] == nil {
			if !becomesNull(ops, name) {
				return wire.Invalid("Schema error for patch: '%s' is a required property", name)
			}
			wrong.schema(name, t.null(patched, f), false)
			continue
		}
		if f.Trim != nil {
			doc[name] = f.Trim(doc[name])
		}
		if value, ok := t.check(&wrong, patched, f, doc[name]); ok {
			doc[name] = value
		}
	}
	if err := cmp.Or(wrong.told(), wrong.rule.err); err != nil {
		return err
	}
	for _, name := range touched {
		f, _ := t.Lookup(name)
		f.Set(obj, doc[name])
	}
	return nil
}

// becomesNull reports whether the last operation about the whole of a field gives it null,
// and does not take it away.
func becomesNull(ops []patch.Op, name string) bool {
	for _, op := range slices.Backward(ops) {
		if op.Root() == name && op.Whole() {
			return op.Kind != patch.Remove
		}
	}
	return false
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

// patched is what Ironic calls any item whose PATCH gives it a wrong value.
const patched = "patch"

// null refuses null where a field is solid.
func (t *Table[T]) null(called string, f *Field[T]) error {
	return wire.Invalid("%s: None is not of type '%s'", against(called), cmp.Or(f.Type, "array")).Detailed("in %s", f.Name) // lists name none
}

// unlike says that the value of a field is not as the schema has it.
func (t *Table[T]) unlike(called string, f *Field[T], err error) *wire.Error {
	text := err.Error()
	if f.Required { // null would be none of the kinds
		text = strings.TrimSuffix(text, ", 'null'")
	}
	return wire.Invalid("%s: %s", against(called), text)
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
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(slices.Index(t.later, a)-slices.Index(t.later, b), strings.Compare(a, b))
	})
	return names
}

func (t *Table[T]) invalid(format string, args ...any) error {
	return wire.Invalid(against(t.called)+": "+format, args...)
}

// against is how an error about the values of an item begins that is called so; Ironic does
// not name items of every kind.
func against(called string) string {
	if called == "" {
		return "Schema error"
	}
	return "Schema error for " + called
}

// NotAllowed says which of the names in an object nobody knows.
func NotAllowed(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "'%.80s'", name)
	}
	verb := "was"
	if len(names) > 1 {
		verb = "were"
	}
	return fmt.Sprintf("Additional properties are not allowed (%.400s %s unexpected)", b.String(), verb)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
