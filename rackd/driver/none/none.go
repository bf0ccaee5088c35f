// Package none holds the implementations that do nothing: "no-…", which say that
// the hardware type cannot do it, and "noop", which say that nothing is needed.
//
// It may import rackd/driver and protocol. Nothing here touches a machine.
package none

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Unsupported is a "no-<kind>" implementation. Validate wraps
// driver.ErrUnsupported, and so does everything that it is asked to do.
type Unsupported struct{ Kind string }

// Properties is empty.
func (Unsupported) Properties() map[string]string { return nil }

// Validate always wraps driver.ErrUnsupported.
func (u Unsupported) Validate(n *node.Document) error {
	return driver.Unsupported(n, u.Kind, u.Kind)
}

// NamedSteps is empty.
func (Unsupported) NamedSteps(*node.Document) []driver.Step { return nil }

// InspectSteps is one step that fails.
func (u Unsupported) InspectSteps(n *node.Document) []driver.Step { return u.refuse("inspect") }

// RescueSteps is one step that fails.
func (u Unsupported) RescueSteps(n *node.Document) []driver.Step { return u.refuse("rescue") }

// UnrescueSteps is one step that fails.
func (u Unsupported) UnrescueSteps(n *node.Document) []driver.Step { return u.refuse("unrescue") }

func (u Unsupported) refuse(step string) []driver.Step {
	return []driver.Step{{Interface: u.Kind, Name: step, Kind: driver.Repeatable,
		Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			return driver.Outcome{}, u.Validate(t.Node)
		}}}
}

// Noop is a "noop" implementation: valid, and nothing to do.
type Noop struct{}

// Properties is empty.
func (Noop) Properties() map[string]string { return nil }

// Validate accepts every node.
func (Noop) Validate(*node.Document) error { return nil }

// NamedSteps is empty.
func (Noop) NamedSteps(*node.Document) []driver.Step { return nil }
