package fields

import (
	"cmp"
	"errors"

	"github.com/ironyard/ironyard/central/api/wire"
)

// faults collects what is wrong with the values of a request and says what of it the client
// hears. Ironic has two ways, by which part of it reads the schema: of most resources it names
// the fault that is nearest to the root, and of several the last by the field's name; of those
// whose schemas its routes read the first by name. Both look at all that the schema says before
// they read UUIDs, addresses and words for booleans, and at rules between values last.
type faults struct {
	first         bool  // of the schema's faults the first is named
	outer         error // what the schema says against the whole
	shallow, deep fault // what the schema says against a value, and against what is in it
	unread        fault // a value that is none of the field's kind
	rule          fault // what speaks against a value that can be read
}

// fault is what is wrong with the value of a field.
type fault struct {
	field string
	err   error
}

// insideError is a fault inside of a field's value.
type insideError struct {
	where string
	error
}

// Inside marks what a Check says against a part of a value ("step 2"), of which clients hear only
// where no whole value is wrong.
func Inside(where string, err error) error { return insideError{where, err} }

// early keeps the fault of the field that comes first by name.
func (f *fault) early(field string, err error) {
	if f.err == nil || field < f.field {
		*f = fault{field, err}
	}
}

// late keeps the fault of the field that comes last by name.
func (f *fault) late(field string, err error) {
	if f.err == nil || field > f.field {
		*f = fault{field, err}
	}
}

// schema takes what the schema says against the value of a field; inside: against a part of it.
func (f *faults) schema(field string, err error, inside bool) {
	switch {
	case f.first:
		f.shallow.early(field, err)
	case inside:
		f.deep.late(field, err)
	default:
		f.shallow.late(field, err)
	}
}

// told is what the client hears before versions and rules are looked at; nil: nothing.
func (f *faults) told() error {
	if f.first {
		return cmp.Or(f.shallow.err, f.outer, f.unread.err)
	}
	return cmp.Or(f.outer, f.shallow.err, f.deep.err, f.unread.err)
}

// check reads a value of an item that errors call so, and takes what is wrong with it. The value
// is good where ok is true.
func (t *Table[T]) check(wrong *faults, called string, f *Field[T], v any) (value any, ok bool) {
	value, err := f.Check(v)
	if err == nil {
		return value, true
	}
	own, isRule := errors.AsType[*wire.Error](err)
	text, isText := errors.AsType[*unreadable](err)
	word, isWord := errors.AsType[*notBoolean](err)
	switch {
	case isRule:
		wrong.rule.early(f.Name, own)
	case isText:
		wrong.unread.early(f.Name, wire.Invalid("%s", text.text))
	case isWord:
		wrong.unread.early(f.Name, wire.Invalid("Invalid %s: %v", f.Name, word))
	default:
		part, inside := errors.AsType[insideError](err)
		wrong.schema(f.Name, t.unlike(called, f, err).Detailed("in %s", cmp.Or(part.where, f.Name)), inside)
	}
	return nil, false
}
