// Package runner carries one piece of work to its end: it takes the work, runs the steps of its flow with a checkpoint before
// each, waits where they wait, and reports each change as an event.
//
// It may import protocol, rackd/driver, rackd/plan, rackd/refusal, rackd/view, rackd/conductor/flow and
// rackd/conductor/secrets; it declares what else it needs. Invariants:
//   - One runner, one goroutine, for one piece of work. Others reach it by its exported methods only.
//   - A side effect needs the lease and the work's epoch: a fence checks both, right before each write to a BMC and each
//     command to an agent (fence.go).
//   - The checkpoint that begins a step is written before the step runs. A successor goes on from there.
//   - A runner that has lost its work writes nothing more, neither to the bus nor to the machine.
//   - A flow whose node is in maintenance begins no step, and its time stands still (maintenance.go). If it fails there, its machine
//     is left as it is until the maintenance ends (failurewait.go).
package runner

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/trouble"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/conductor/secrets"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// Documents is the rack's memory and its way to the bus (rackd/view).
type Documents interface {
	// Node returns the newest document of a node; nil: it is not known here.
	Node(id string) *node.Document
	// Work returns the newest work of a node; nil: the bus has none.
	Work(id string) *view.Work
	// UpdateWork replaces the revision of a work's document and returns the next one, or view.ErrConflict.
	UpdateWork(ctx context.Context, doc work.Document, revision uint64) (uint64, error)
	// RefreshWork reads a node's work document from the bus.
	RefreshWork(ctx context.Context, group, id string) error
	// ConfigDrive reads a sealed config drive from the bus.
	ConfigDrive(ctx context.Context, name string) (string, error)
}

// Members says whether this rackd still has its lease, and what is known of others (rackd/lease).
type Members interface {
	// Check returns nil while the lease is held by this machine's clocks.
	Check() error
	// Confirm returns nil once the bus has renewed the lease, by a renewal that began after
	// the call. It waits while the bus is silent, until Check fails.
	Confirm() error
	// ID is the id of the lease; it changes when the lease has ended and another begins.
	ID() string
	// LastSeen is when the last sign of life of a rackd came.
	LastSeen(name string) (time.Time, bool)
}

// Keys are those of the conductor groups that this rackd may serve (seal.Keyring).
type Keys interface {
	// Of returns nil for a group whose key this rackd does not have.
	Of(group string) *seal.Key
}

// Metrics counts what runners do. All methods are safe for concurrent use.
type Metrics interface {
	WorkTaken(verb work.Verb)
	WorkEnded(verb work.Verb, ok bool, took time.Duration)
	StepRan(name string, took time.Duration, err error)
	Fenced()
	// TakenOver: work went on that another rackd, now dead, had begun; took is the time
	// from that rackd's last sign of life.
	TakenOver(took time.Duration)
	Released()
}

// Conductor is what a runner needs of the conductor that started it (rackd/conductor).
type Conductor interface {
	// Insist publishes an event, trying until ctx ends.
	Insist(ctx context.Context, e work.Event) error
	// NotePower remembers which power state e told, unless err leaves open whether it did.
	NotePower(e work.Event, err error)
	// ForgetPower forgets which power state was told last when e tells one that central may drop.
	ForgetPower(e work.Event)
	// NoteHardware remembers what o told of a node's machine, unless err leaves open whether it did.
	NoteHardware(node string, o *hardware.Observation, err error)
	// NoteReported remembers that the end of a node's work has been reported.
	NoteReported(e work.Event)
	// Addresses are those that a node's machine is known to have been given.
	Addresses(n *node.Document, boot work.Boot) []netip.Addr
	// Refused counts a call of an agent that was refused, and logs it unless many are.
	Refused(call, why string, details ...any)
}

// Deps is what the runners of one rackd have in common.
type Deps struct {
	// Name is that of this rackd.
	Name string
	// Documents is the rack's memory.
	Documents Documents
	// Members says whether this rackd still has its lease.
	Members Members
	// Conductor publishes events, and knows what other works and requests have told.
	Conductor Conductor
	// Hardware resolves the interfaces of a node.
	Hardware *driver.Registry
	// Images are those that agents write.
	Images driver.Images
	// Media is where media of ramdisks are served; nil: nowhere.
	Media Media
	// Reach is driver.Task's.
	Reach func(ctx context.Context, url string) error
	// Keys sign what a checkpoint says of an agent, and derive the tokens of agents.
	Keys Keys
	// Secrets opens what central sealed.
	Secrets *secrets.Opener
	// Flows makes the steps of works.
	Flows *flow.Catalog
	// NewAgent returns the client of a node's agent; state gives its newest address, tokens
	// those of its boot, one for each generation of the group's key, the newest first.
	NewAgent func(node string, tokens func() []string, state func() *work.Agent) driver.Agent
	// AgentLives asks an agent, once, whether it is there: whether it answers at its URL with its certificate.
	AgentLives func(ctx context.Context, a work.Agent) bool
	// BuildDrive makes what agents take of a config drive as the API took it; uuid
	// and name complete its metadata.
	BuildDrive func(ctx context.Context, input, uuid, name string) (string, error)
	// Metrics counts what runners do.
	Metrics Metrics
	// Log is the rackd's.
	Log *slog.Logger
	// Away tells in few log lines that the bus does not take checkpoints, of all works together.
	Away *trouble.Spells
	// Deadlines override those of the state machine; 0 or missing: its own.
	Deadlines map[provision.State]time.Duration
}
