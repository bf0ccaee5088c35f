package store

import (
	"errors"
	"fmt"
)

// ErrNotFound means that there is no such row.
var ErrNotFound = errors.New("not found")

// ErrConflict means that the row changed since it was read.
var ErrConflict = errors.New("changed by another request")

// ErrBusy means that a transaction was given up after all retries: too many wanted the
// same rows. It changed nothing.
var ErrBusy = errors.New("too many transactions want the same rows")

// ErrUnknown means that the database went away while it was asked to commit: whether
// the transaction took place is not known until its rows are read.
var ErrUnknown = errors.New("the database did not confirm the commit")

// Unavailable reports whether err says that the database cannot be used just now, and
// not that something is wrong with what was asked of it. Unless err is ErrUnknown too,
// nothing was changed.
func (s *Store) Unavailable(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrUnknown) || s.engine.away(err)
}

// Refuses reports whether err says that what was to be written cannot be stored, whatever the
// state of the database. A missing table, right or room is no such error.
func (s *Store) Refuses(err error) bool {
	_, duplicate := errors.AsType[*DuplicateError](err)
	return duplicate || s.engine.refuses(err)
}

// DuplicateError says that a value which must be unique is taken.
type DuplicateError struct {
	// Field is "uuid", "name", "instance_uuid", "address" (of a port), "trait",
	// "member" (a name among members), or "work" when the node has open work already.
	Field string
	// Value is what was taken, where it is known; of a volume connector its type, a space, and its ID.
	Value string
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%s %q is taken already", e.Field, e.Value)
}
