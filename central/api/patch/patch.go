// Package patch reads and applies JSON PATCH as Ironic takes it: add, replace and
// remove only, one operation after the other.
//
// It knows no resource: the caller decides which attributes exist and may change,
// and its document names no others. It imports wire, and seal for which names are
// secret. Apply changes the document that it is given, so callers give it a copy
// (Clone).
package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Kind is what an operation does.
type Kind string

// The operations.
const (
	Add     Kind = "add"
	Replace Kind = "replace"
	Remove  Kind = "remove"
)

// unescape turns what a step is written as into its name: RFC 6901, section 4.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// MaxOps bounds the operations of one request.
const MaxOps = 1000

// Op is one operation.
type Op struct {
	Kind  Kind
	Path  string   // as the client wrote it
	Steps []string // the path's unescaped parts, at least one
	Value any

	valued bool // the client gave a value, perhaps null
}

// Root is the attribute that the operation is about.
func (o *Op) Root() string { return o.Steps[0] }

// Whole reports whether the operation is about the attribute as a whole.
func (o *Op) Whole() bool { return len(o.Steps) == 1 }

// Error is a patch that cannot be applied: HTTP 400.
type Error struct {
	Op     Op
	Reason string
}

// Error names the operation; a value that is long is cut, and one of a secret masked.
func (e *Error) Error() string {
	value := ""
	if e.Op.valued {
		value = ", 'value': " + wire.ReprOf(e.Op.Path, e.Op.Value)
		if slices.ContainsFunc(e.Op.Steps, seal.IsSecret) {
			value = ", 'value': '******'"
		}
	}
	return fmt.Sprintf("Couldn't apply patch '{'op': '%s', 'path': %s%s}'. Reason: %s", e.Op.Kind, wire.Repr(e.Op.Path), value, e.Reason)
}

// HTTPStatus is 400.
func (e *Error) HTTPStatus() int { return 400 }

// path admits what Ironic does, and the dots and escapes that names of extra fields may hold: 1.98 was to
// bring them, though Ironic's schema goes on refusing them.
var path = regexp.MustCompile(`^(/[\pL\pN_.~-]+)+$`)

// Parse reads a request's body, as wire.ReadJSON gives it.
func Parse(body any) ([]Op, error) { return parse(body, named) }

// ParseFree is Parse for resources whose paths may name anything, and whose values are neither
// lists nor fractions: allocations.
func ParseFree(body any) ([]Op, error) { return parse(body, free) }

func parse(body any, admit func(*Op) error) ([]Op, error) {
	list, ok := body.([]any)
	if !ok {
		return nil, wire.Invalid("Schema error for patch: %s is not of type 'array'", wire.Repr(single(body)))
	}
	if len(list) > MaxOps {
		return nil, wire.Invalid("Schema error for patch: %d operations, and at most %d are allowed", len(list), MaxOps)
	}
	ops := make([]Op, len(list))
	for i, item := range list {
		if err := ops[i].read(item, admit); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// single is what a client sends who forgets the list around an operation, without the value of a secret.
func single(body any) any {
	m, _ := body.(map[string]any)
	path, _ := m["path"].(string)
	text, _ := m["value"].(string)
	shown := seal.MaskAddresses(path, text, "******")
	if seal.IsSecret(path) {
		shown = "******"
	}
	if shown == text || m["value"] == nil {
		return body
	}
	m = maps.Clone(m)
	m["value"] = shown
	return m
}

func (o *Op) read(item any, admit func(*Op) error) error {
	m, ok := item.(map[string]any)
	if !ok {
		return wire.Invalid("Schema error for patch: %s is not of type 'object'", wire.Repr(item))
	}
	for key := range m {
		if key != "op" && key != "path" && key != "value" {
			return wire.Invalid("Schema error for patch: Additional properties are not allowed ('%.80s' was unexpected)", key)
		}
	}
	for _, name := range []string{"op", "path"} {
		value, given := m[name]
		if !given {
			return wire.Invalid("Schema error for patch: '%s' is a required property", name)
		}
		if _, isText := value.(string); !isText {
			return wire.Invalid("Schema error for patch: %s is not of type 'string'", wire.Repr(value))
		}
	}
	kind, _ := m["op"].(string)
	o.Kind = Kind(kind)
	if !slices.Contains([]Kind{Add, Replace, Remove}, o.Kind) {
		return wire.Invalid("Schema error for patch: %s is not one of ['add', 'replace', 'remove']", wire.Repr(kind))
	}
	o.Path, _ = m["path"].(string)
	o.Value, o.valued = m["value"]
	if err := admit(o); err != nil {
		return err
	}
	for step := range strings.SplitSeq(o.Path[1:], "/") {
		if strings.Contains(step, "~") {
			step = unescape.Replace(step)
		}
		o.Steps = append(o.Steps, step)
	}
	if len(o.Steps) > wire.MaxDepth {
		return wire.Invalid("Schema error for patch: path %.80q is deeper than %d levels", o.Path, wire.MaxDepth)
	}
	if !o.valued && o.Kind != Remove {
		return &Error{*o, "The operation does not contain a 'value' member"}
	}
	return nil
}

// named admits operations whose paths consist of names.
func named(o *Op) error {
	if !path.MatchString(o.Path) {
		return wire.Invalid("Schema error for patch: %s does not match '%s'", wire.Repr(o.Path), `^(/[\\w-]+)+$`)
	}
	return nil
}

// free admits operations with any path and a value of one of the kinds that it may be of.
func free(o *Op) error {
	if !strings.HasPrefix(o.Path, "/") {
		return wire.Invalid("Schema error: %s does not begin with '/'", wire.Repr(o.Path))
	}
	plain := true
	switch v := o.Value.(type) {
	case []any:
		plain = false
	case json.Number:
		f, err := v.Float64()
		plain = err == nil && f == math.Trunc(f)
	}
	if !plain {
		return wire.Invalid("Schema error: %s is not of type 'string', 'object', 'null', 'integer', 'boolean'", wire.Repr(o.Value))
	}
	return nil
}

// Apply applies op to doc, whose keys are the attributes that it may name. An attribute that is
// removed as a whole is no longer there, so that only an add brings it back.
func Apply(doc map[string]any, op Op) error {
	if _, exists := doc[op.Root()]; !exists && !op.Whole() {
		return &Error{op, fmt.Sprintf("member %s not found", wire.Repr(op.Root()))} // the others are not for this error to show
	}
	_, err := changeObject(doc, op.Steps, &op)
	return err
}

// change applies op to what lies at steps inside of container, and returns the
// container, which for a list may be another one.
func change(container any, steps []string, op *Op) (any, error) {
	switch c := container.(type) {
	case map[string]any:
		return changeObject(c, steps, op)
	case []any:
		return changeList(c, steps, op)
	}
	return nil, &Error{*op, noContainer(container, steps[0])}
}

// noContainer says that nothing is in a value under a name, in the words of the library that
// Ironic applies patches with: to it a text is a sequence.
func noContainer(v any, name string) string {
	class := "NoneType"
	switch v := v.(type) {
	case string:
		return wire.Repr(name) + " is not a valid sequence index"
	case bool:
		class = "bool"
	case json.Number:
		class = "int"
		if strings.ContainsAny(v.String(), ".eE") {
			class = "float"
		}
	case int64:
		class = "int"
	}
	return "Document '<class '" + class + "'>' does not support indexing, must be mapping/sequence or support __getitem__"
}

func changeObject(c map[string]any, steps []string, op *Op) (any, error) {
	name := steps[0]
	old, exists := c[name]
	switch {
	case !exists && len(steps) > 1:
		return nil, &Error{*op, fmt.Sprintf("member %s not found in %s", wire.Repr(name), wire.Repr(c))}
	case !exists && op.Kind != Add:
		return nil, &Error{*op, fmt.Sprintf("can't %s a non-existent object '%s'", op.Kind, name)}
	case len(steps) > 1:
		changed, err := change(old, steps[1:], op)
		if err != nil {
			return nil, err
		}
		c[name] = changed
	case op.Kind == Remove:
		delete(c, name)
	default:
		c[name] = Clone(op.Value)
	}
	return c, nil
}

func changeList(c []any, steps []string, op *Op) (any, error) {
	last := len(steps) == 1
	if steps[0] == "-" && last && op.Kind == Add {
		return append(c, Clone(op.Value)), nil
	}
	i, err := strconv.Atoi(steps[0])
	room := len(c)
	if last && op.Kind == Add {
		room++
	}
	switch {
	case steps[0] == "-" && last && op.Kind == Replace:
		return nil, &Error{*op, "'path' with '-' can't be applied to 'replace' operation"}
	case steps[0] == "-" && last:
		return nil, &Error{*op, "invalid array index '-'"}
	case err != nil || i < 0 || strconv.Itoa(i) != steps[0]:
		return nil, &Error{*op, fmt.Sprintf("%s is not a valid sequence index", wire.Repr(steps[0]))}
	case i >= room && op.Kind == Add:
		return nil, &Error{*op, "can't insert outside of list"}
	case i >= room && op.Kind == Remove && last:
		return nil, &Error{*op, fmt.Sprintf("can't remove a non-existent object '%d'", i)}
	case i >= room:
		return nil, &Error{*op, fmt.Sprintf("can't %s outside of list", op.Kind)}
	}
	switch {
	case !last:
		changed, err := change(c[i], steps[1:], op)
		if err != nil {
			return nil, err
		}
		c[i] = changed
	case op.Kind == Add:
		return slices.Insert(c, i, Clone(op.Value)), nil
	case op.Kind == Remove:
		return slices.Delete(c, i, i+1), nil
	default:
		c[i] = Clone(op.Value)
	}
	return c, nil
}

// Clone returns a deep copy of a JSON value.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = Clone(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = Clone(inner)
		}
		return out
	}
	return v
}
