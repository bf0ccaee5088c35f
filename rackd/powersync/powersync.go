// Package powersync is the periodic task that reads the power state of idle machines. It reports what changed, puts
// nodes whose BMC fails into maintenance and takes them out when it answers again.
//
// It may import protocol, rackd/driver and rackd/periodic; it declares what else it needs.
// Invariants:
//   - It only reads: no BMC is told to do anything. Where power is forced, central makes work of what it reports.
//   - Only the fault "power failure" is ended here: maintenance that an operator set, or that has another reason, is
//     theirs to end.
//   - Spread, back-off and turns are those of rackd/periodic, which this task leads.
package powersync

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/periodic"
)

// Name of the task.
const Name = "power"

// Nodes are this rackd's (rackd/conductor).
type Nodes interface {
	// Idle returns a node with its secrets open, and its hardware; a nil node when
	// another rackd owns it or it has work in flight.
	Idle(id string) (*node.Document, *driver.Hardware, error)
	// SawPower reports the power state read at a time, if it is news. force: central is to have the machine brought back into the
	// state that it has on record, if that is another.
	SawPower(ctx context.Context, n *node.Document, s driver.PowerState, at time.Time, force bool) error
	// SawHardware reads what else is to be known of an idle machine, and reports it if it
	// is news. That it cannot be read is no error.
	SawHardware(ctx context.Context, n *node.Document, hw *driver.Hardware) error
	// Report publishes an event. It, SawPower and SawHardware tell the log of what they could not report.
	Report(ctx context.Context, e work.Event) error
}

// Metrics counts reads by result: ok, unreachable, denied or failed. Safe for
// concurrent use.
type Metrics interface{ PowerRead(result string) }

// Config of a power sync; zero numbers and times mean Ironic's defaults.
type Config struct {
	Name  string // this rackd's
	Nodes Nodes
	// Tasks run the task.
	Tasks *periodic.Runner
	// Every is how often a healthy machine's power is read; default 120 s.
	Every time.Duration
	// Recovery is the first pause between the reads of a machine that is in
	// maintenance because of its BMC; it grows fourfold. Default 300 s.
	Recovery time.Duration
	// Failures is how many in a row put a node into maintenance; default 3.
	Failures int
	// Force: a machine is brought back into the power state that central has on record.
	Force   bool
	Metrics Metrics
	Log     *slog.Logger
}

const (
	// readTimeout bounds one read.
	readTimeout = time.Minute
	// workers is how many machines are read at once. They wait for BMCs: 10,000 are read in a minute where a read with its login takes
	// 190 ms. Ironic's 8 workers would need four times as long.
	workers = 32
)

// Sync is safe for concurrent use.
type Sync struct {
	cfg Config
	// began is the moment from which faults.told counts, by the monotonic clock.
	began time.Time

	mu     sync.Mutex
	faults map[string]*fault // by node: few
	// ways are the nodes that were read, by their hardware type and driver.WayToBMC; swept is how many there were after the last sweep.
	ways  map[string]sighting
	swept int
}

// fault is what is known of a node whose BMC fails.
type fault struct {
	// told is when it was reported, since Sync.began; 0: it was not.
	told time.Duration
	// shown: the node's document has shown it.
	shown bool
	// asked: an operator has ended it, and the BMC has neither let in nor refused a login since.
	asked bool
}

// Add adds the power sync to its runner's tasks.
func Add(c Config) *Sync {
	if c.Every <= 0 {
		c.Every = 120 * time.Second
	}
	// A moment ago: 0 says that there is no time.
	s := &Sync{cfg: c, began: time.Now().Add(-time.Second), faults: map[string]*fault{}, ways: map[string]sighting{}}
	c.Tasks.Add(periodic.Task{Name: Name, Every: c.Every, Workers: workers, Recovery: c.Recovery, Failures: c.Failures, Leads: true, Wants: s.wants, Do: s.read, Troubled: s.troubled})
	return s
}
