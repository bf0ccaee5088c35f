package periodic

import (
	"context"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Task is what is done for each node from time to time. Zero numbers and times mean the defaults.
type Task struct {
	// Name in logs and metrics; unique.
	Name string
	// Every is the interval for a node that is well. A task without one is not added.
	Every time.Duration
	// Workers bounds how often the task runs at once; default 8.
	Workers int
	// Recovery is the first pause after refused credentials, and after Failures failures in a row. It grows. Default 300 s.
	Recovery time.Duration
	// Failures is how many in a row count as trouble that lasts; default 3.
	Failures int
	// Leads: what this task finds out about a BMC keeps other tasks from it, and theirs do not keep this one.
	Leads bool

	// Wants says whether the task is for a node; nil: for all that are not in maintenance.
	Wants func(n *node.Document, hw *driver.Hardware) bool
	// Do does it. An error is a failure of the BMC or the machine. Do bounds what it asks of them. Where the hardware cannot do
	// it, which is driver.ErrUnsupported, the node is asked again after the interval, and no failure is counted.
	Do func(ctx context.Context, n *node.Document, hw *driver.Hardware) error
	// Troubled is called after a failure, and when the task was left out because of one; nil: nothing is.
	Troubled func(ctx context.Context, n *node.Document, t Trouble)
	// Gone is called once a node has left the group, so that the task forgets it; nil: it keeps nothing. It does not block. A run for the
	// node that was under way has ended by then.
	Gone func(id string)
}

func (t Task) withDefaults() Task {
	if t.Workers <= 0 {
		t.Workers = 8
	}
	if t.Recovery <= 0 {
		t.Recovery = 300 * time.Second
	}
	if t.Failures <= 0 {
		t.Failures = 3
	}
	if t.Wants == nil {
		t.Wants = func(n *node.Document, _ *driver.Hardware) bool { return !n.Maintenance }
	}
	return t
}
