package flow

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// notKept are the secrets of a child on which its parent's step runs: none is replaced. What the checkpoint keeps is the parent's,
// and would end in the parent's driver_info.
type notKept struct{ parent, child *node.Document }

func (s notKept) refusal(field string) error {
	return fmt.Errorf("child node %s: its %s cannot be replaced by a step of its parent node %s: send the step to the child itself: %w",
		s.child.Label(), field, s.parent.Label(), driver.ErrInvalid)
}

// Replace implements driver.Secrets.
func (s notKept) Replace(_ context.Context, field, _ string, _ ...string) error {
	return s.refusal(field)
}

// Replacing implements driver.Secrets.
func (s notKept) Replacing(field string) (string, bool, error) { return "", false, s.refusal(field) }

// Replaced implements driver.Secrets.
func (s notKept) Replaced(_ context.Context, field string) error { return s.refusal(field) }

// Forget implements driver.Secrets.
func (s notKept) Forget(_ context.Context, field string) error { return s.refusal(field) }

// Shown implements driver.Secrets.
func (s notKept) Shown(_ context.Context, field string) (bool, error) { return false, s.refusal(field) }
