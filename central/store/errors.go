package store

import (
	"errors"
	"fmt"
)

// ErrNotFound means that there is no such row.
var ErrNotFound = errors.New("not found")

// ErrConflict means that the row changed since it was read, or that the database
// gave up after all retries because of contention.
var ErrConflict = errors.New("changed by somebody else")

// DuplicateError says that a value which must be unique is taken.
type DuplicateError struct {
	// Field is "uuid", "name", "instance_uuid", "address" (of a port), "trait",
	// "member" (a name among members), or "work" when the node has open work already.
	Field string
	// Value is what was taken, where it is known.
	Value string
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%s %q is taken already", e.Field, e.Value)
}
