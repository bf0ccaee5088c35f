// Package fields drives a resource by one table of its fields: which version
// shows a field, what its JSON is, whether POST and PATCH may set it, which
// values it takes and whether lists may be sorted by it.
//
// It imports microversion, patch and wire. A Table is built once at start and
// never changes; it is safe for concurrent use.
package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
)

// Field is one field of a resource that is held in a T.
type Field[T any] struct {
	Name  string
	Since microversion.Version // first version that shows the field
	// Get returns the value for the answer, Stored the one that a PATCH starts
	// from. Stored is nil where they do not differ.
	Get, Stored func(*T) any
	// Put, where there is one, appends what Get returns as JSON, and saves making a
	// value of it.
	Put func([]byte, *T) []byte
	// Set takes a value that Check has passed.
	Set   func(*T, any)
	Check func(v any) (any, error)

	// Type and Format are those of JSON Schema; an empty type: any.
	Type, Format string

	CanPost, CanPatch bool // the request may set the field
	Required          bool // POST must, and PATCH may not remove it
	InList            bool // shown in lists that ask for no fields
	SortKey           bool // lists may be sorted by it
	// FirstGuards: a PATCH that is older than the field is refused only where its first
	// operation is about the field, as Ironic does.
	FirstGuards bool
	// Silent: before Since nobody has heard of the field (400), elsewhere it is too new (406).
	Silent bool
	// Solid: null is refused. A request may leave the field out, or remove it, all the same.
	Solid bool
	// Stays: a PATCH that removes the field leaves it as it is.
	Stays bool
	// NullSays: to post null for the field needs its version, too.
	NullSays bool
	// Trim takes away what a PATCH may leave in the field and is no part of it; nil: there is nothing.
	Trim  func(v any) any
	early Use // see Early
}

// Unheard sets Silent.
func (f Field[T]) Unheard() Field[T] { f.Silent = true; return f }

// Post lets POST set the field.
func (f Field[T]) Post() Field[T] { f.CanPost = true; return f }

// Patch lets PATCH set the field.
func (f Field[T]) Patch() Field[T] { f.CanPatch = true; return f }

// Write lets both set the field.
func (f Field[T]) Write() Field[T] { return f.Post().Patch() }

// List shows the field in short lists.
func (f Field[T]) List() Field[T] { f.InList = true; return f }

// Sort lets lists be sorted by the field.
func (f Field[T]) Sort() Field[T] { f.SortKey = true; return f }

// Must makes the field required.
func (f Field[T]) Must() Field[T] { f.Required = true; return f }

// NotNull sets Solid.
func (f Field[T]) NotNull() Field[T] { f.Solid = true; return f }

// Keep sets Stays.
func (f Field[T]) Keep() Field[T] { f.Stays = true; return f }

// TellingNull sets NullSays.
func (f Field[T]) TellingNull() Field[T] { f.NullSays = true; return f }

// Lenient sets FirstGuards.
func (f Field[T]) Lenient() Field[T] { f.FirstGuards = true; return f }

// Of says of which type of JSON Schema the values of a computed field are.
func (f Field[T]) Of(kind string) Field[T] { f.Type = kind; return f }

// Show replaces what answers show, leaving what a PATCH starts from.
func (f Field[T]) Show(get func(*T) any) Field[T] {
	f.Stored, f.Get, f.Put = f.Get, get, nil
	return f
}

// Plain takes true and false only, not the words for them.
func (f Field[T]) Plain() Field[T] {
	inner := f.Check
	f.Check = func(v any) (any, error) {
		if s, isText := v.(string); isText {
			return nil, fmt.Errorf("'%.40s' is not of type 'boolean', 'null'", s)
		}
		return inner(v)
	}
	return f
}

// FilledIsYes takes any text for a boolean: an empty one is no, and each other, "false" too, yes.
func (f Field[T]) FilledIsYes() Field[T] {
	inner := f.Check
	f.Check = func(v any) (any, error) {
		if s, isText := v.(string); isText {
			return s != "", nil
		}
		return inner(v)
	}
	return f
}

// Where adds a check to those of the field's kind. It is not asked about null.
func (f Field[T]) Where(check func(v any) error) Field[T] {
	inner := f.Check
	f.Check = func(v any) (any, error) {
		v, err := inner(v)
		if err != nil || v == nil {
			return v, err
		}
		return v, check(v)
	}
	return f
}

// Max bounds a text's length in characters.
func (f Field[T]) Max(n int) Field[T] {
	return f.Where(func(v any) error {
		if s, ok := v.(string); ok && len([]rune(s)) > n {
			return fmt.Errorf("%s is too long", wire.Repr(s))
		}
		return nil
	})
}

// Filled refuses an empty text, which null stands for.
func (f Field[T]) Filled() Field[T] {
	return f.Where(func(v any) error {
		if v == "" {
			return errors.New("'' should be non-empty")
		}
		return nil
	})
}

// OneOf bounds a text to words.
func (f Field[T]) OneOf(words ...string) Field[T] {
	return f.Where(func(v any) error {
		if s, ok := v.(string); ok && !slices.Contains(words, s) {
			return fmt.Errorf("%s is not one of ['%s']", wire.Repr(s), strings.Join(words, "', '"))
		}
		return nil
	})
}

// Text is a string, null when it is empty.
func Text[T any](name string, since microversion.Version, at func(*T) *string) Field[T] {
	return Field[T]{Name: name, Since: since, Type: "string",
		Get: func(t *T) any {
			if s := *at(t); s != "" {
				return s
			}
			return nil
		},
		Put:   func(b []byte, t *T) []byte { return appendText(b, *at(t)) },
		Set:   func(t *T, v any) { *at(t), _ = v.(string) },
		Check: CheckText,
	}
}

// Empties keeps which texts of an item are empty and not null, and which of its booleans null
// and not false.
type Empties interface {
	Has(field string) bool
	Set(field string, empty bool)
}

// KeepEmpty makes of a text that is null when it is empty one that may be empty as well.
func (f Field[T]) KeepEmpty(of func(*T) Empties) Field[T] {
	get, put, set, name := f.Get, f.Put, f.Set, f.Name
	f.Get = func(t *T) any {
		v := get(t)
		if v == nil && of(t).Has(name) {
			return ""
		}
		return v
	}
	f.Put = func(b []byte, t *T) []byte {
		start := len(b)
		if b = put(b, t); string(b[start:]) == "null" && of(t).Has(name) {
			b = append(b[:start], `""`...)
		}
		return b
	}
	f.Set = func(t *T, v any) {
		of(t).Set(name, v == "")
		set(t, v)
	}
	return f
}

// KeepNull makes of a boolean whose default is false one that a request may make null, which is
// another kind of false.
func (f Field[T]) KeepNull(of func(*T) Empties) Field[T] {
	get, put, set, name := f.Get, f.Put, f.Set, f.Name
	isNull := func(t *T) bool { return of(t).Has(name) && get(t) == false }
	f.Get = func(t *T) any {
		if isNull(t) {
			return nil
		}
		return get(t)
	}
	f.Put = func(b []byte, t *T) []byte {
		if isNull(t) {
			return append(b, "null"...)
		}
		return put(b, t)
	}
	f.Set = func(t *T, v any) {
		of(t).Set(name, v == nil)
		set(t, v)
	}
	return f
}

// NeverNull makes a text that is null when it is empty one that is just empty then.
func (f Field[T]) NeverNull() Field[T] {
	get := f.Get
	f.Put, f.Get = nil, func(t *T) any {
		if v := get(t); v != nil {
			return v
		}
		return ""
	}
	return f
}

// Said is a string that requests never set, null when it is empty.
func Said[T any](name string, since microversion.Version, get func(*T) string) Field[T] {
	f := Computed[T](name, since, func(t *T) any {
		if s := get(t); s != "" {
			return s
		}
		return nil
	})
	f.Put = func(b []byte, t *T) []byte { return appendText(b, get(t)) }
	return f
}

func appendText(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return wire.AppendString(b, s)
}

// UUID is a string with a UUID, null when it is empty.
func UUID[T any](name string, since microversion.Version, at func(*T) *string) Field[T] {
	f := Text(name, since, at)
	f.Format = "uuid"
	f.Check = func(v any) (any, error) {
		if v == nil {
			return nil, nil
		}
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s is not of type 'string', 'null'", wire.Repr(v))
		}
		id, ok := wire.UUID(s)
		if !ok {
			return nil, Unreadable("Expected UUID for %s: %.80s", name, s)
		}
		return id, nil
	}
	return f
}

// Bool is true or false, never null; null sets def.
func Bool[T any](name string, since microversion.Version, def bool, at func(*T) *bool) Field[T] {
	return Field[T]{Name: name, Since: since, Type: "boolean",
		Get: func(t *T) any { return *at(t) },
		Put: func(b []byte, t *T) []byte { return strconv.AppendBool(b, *at(t)) },
		Set: func(t *T, v any) {
			*at(t) = def
			if v, ok := v.(bool); ok {
				*at(t) = v
			}
		},
		Check: CheckBool,
	}
}

// Int is a whole number, never null.
func Int[T any](name string, since microversion.Version, at func(*T) *int64) Field[T] {
	return Field[T]{Name: name, Since: since, Type: "integer",
		Get: func(t *T) any { return *at(t) },
		Set: func(t *T, v any) { *at(t), _ = v.(int64) },
		Check: func(v any) (any, error) {
			switch v := v.(type) {
			case nil, int64:
				return v, nil
			case json.Number:
				if n, isWhole := Integer(v); isWhole {
					return n, nil
				}
			}
			return nil, fmt.Errorf("%s is not of type 'integer'", wire.Repr(v))
		},
	}
}

// Integer reads a whole number, which may be written as 1.0.
func Integer(v json.Number) (int64, bool) {
	if n, err := v.Int64(); err == nil {
		return n, true
	}
	f, err := v.Float64()
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// Tristate is true, false or null.
func Tristate[T any](name string, since microversion.Version, at func(*T) **bool) Field[T] {
	return Field[T]{Name: name, Since: since, Type: "boolean",
		Get: func(t *T) any {
			if p := *at(t); p != nil {
				return *p
			}
			return nil
		},
		Set: func(t *T, v any) {
			*at(t) = nil
			if v, ok := v.(bool); ok {
				*at(t) = &v
			}
		},
		Check: CheckBool,
	}
}

// Object is a JSON object, {} when it is empty.
func Object[T any](name string, since microversion.Version, at func(*T) *map[string]any) Field[T] {
	return Field[T]{Name: name, Since: since, Type: "object",
		Get: func(t *T) any { return *at(t) },
		Set: func(t *T, v any) {
			m, _ := v.(map[string]any)
			if m == nil {
				m = map[string]any{}
			}
			*at(t) = m
		},
		Check: func(v any) (any, error) {
			if _, ok := v.(map[string]any); !ok && v != nil {
				return nil, fmt.Errorf("%s is not of type 'object', 'null'", wire.Repr(v))
			}
			return v, nil
		},
	}
}

// Time is a moment, null when it is unset. Requests never set it.
func Time[T any](name string, since microversion.Version, at func(*T) time.Time) Field[T] {
	return Field[T]{Name: name, Since: since, Type: "string", Format: "date-time", Get: func(t *T) any { return at(t) },
		Put: func(b []byte, t *T) []byte { return wire.AppendTime(b, at(t)) }}
}

// Computed is a field that requests never set.
func Computed[T any](name string, since microversion.Version, get func(*T) any) Field[T] {
	return Field[T]{Name: name, Since: since, Get: get}
}

// CheckText admits a string or null.
func CheckText(v any) (any, error) {
	if _, ok := v.(string); !ok && v != nil {
		return nil, fmt.Errorf("%s is not of type 'string', 'null'", wire.Repr(v))
	}
	return v, nil
}

// unreadable is a value that is none of the field's kind, of which Ironic says so in words of
// the kind's own.
type unreadable struct{ text string }

func (e *unreadable) Error() string { return e.text }

// Unreadable makes the error of a Check whose text is the answer's. Unlike a *wire.Error, which
// is a rule about values that can be read, it is told before versions are looked at.
func Unreadable(format string, args ...any) error { return &unreadable{fmt.Sprintf(format, args...)} }

// notBoolean is a text that means neither yes nor no.
type notBoolean struct{ text string }

func (e *notBoolean) Error() string {
	return fmt.Sprintf("Unrecognized value '%.40s', acceptable values are: %s", e.text, wire.BoolWords)
}

// CheckBool admits a boolean, one of the words for it, or null.
func CheckBool(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		if b, ok := wire.Bool(v); ok {
			return b, nil
		}
		return nil, &notBoolean{v}
	}
	return nil, fmt.Errorf("%s is not of type 'string', 'boolean', 'null'", wire.Repr(v))
}
