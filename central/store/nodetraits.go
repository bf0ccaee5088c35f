package store

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
)

// traitList keeps the traits of a node as one text, sorted, in the node's own row: who reads
// a node needs no other table for them. The table node_traits has them for who looks for nodes
// by a trait; SetTraits writes both.
type traitList []string

func (l *traitList) Scan(src any) error {
	text, ok := src.(string)
	if !ok {
		return fmt.Errorf("column of traits holds %T", src)
	}
	*l = nil
	if text != "" {
		*l = strings.Split(text, ",")
	}
	return nil
}

func (l traitList) Value() (driver.Value, error) { return l.text(), nil }

func (l traitList) text() string { return strings.Join(slices.Sorted(slices.Values(l)), ",") }
