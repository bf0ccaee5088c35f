package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
)

// Periodic is what a hardware type has done for its idle nodes from time to time. It is a line of Type.Periodic; rackd does the rest:
// ownership, spread, turns on a BMC's account, back-off, metrics and logs (rackd/periodic).
type Periodic struct {
	// Name is the task's, after that of the hardware type, as in "redfish.fans".
	Name string
	// Every is how often a node has its turn, give or take a tenth.
	Every time.Duration
	// Wants says whether a node of the type has turns; nil: one that is not in maintenance.
	Wants func(n *node.Document) bool
	// Do reads what it is about, and returns what the node's history is to say of it; empty: nothing. The same is said once a day. It writes to
	// no machine, and is lent no fence. An error is a failure of the BMC, which is then left alone for a while; ErrUnsupported is none.
	Do func(ctx context.Context, n *node.Document, hw *Hardware) (says string, err error)
}

// check refuses tasks that could not run, and names that are taken.
func (t Type) check() error {
	names := map[string]bool{}
	for _, p := range t.Periodic {
		switch {
		case p.Name == "" || names[p.Name]:
			return fmt.Errorf("hardware type %s: a periodic task has no name of its own (%q)", t.Name, p.Name)
		case p.Every <= 0 || p.Do == nil:
			return fmt.Errorf("hardware type %s: the periodic task %s needs an interval and a function", t.Name, p.Name)
		}
		names[p.Name] = true
	}
	return nil
}

// Periodics calls each with the periodic tasks of the enabled hardware types.
func (r *Registry) Periodics(each func(hardware string, p Periodic)) {
	for name, t := range r.types {
		for _, p := range t.Periodic {
			each(name, p)
		}
	}
}
