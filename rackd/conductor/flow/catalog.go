// Package flow makes the steps of a verb's work, and says how the end of a flow leaves its machine.
//
// It may import protocol, rackd/driver, rackd/plan and rackd/view; it declares what else it needs. Invariants:
//   - A list of steps is made once and kept in the work's checkpoint (fixed.go). A successor runs the same one.
//   - A step writes to a machine only behind its task's fence.
//   - A flow knows nothing of the rackd that runs it, nor of its place in the ring.
package flow

import (
	"context"
	"log/slog"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// Documents is the rack's memory (rackd/view).
type Documents interface {
	Node(id string) *node.Document
	Work(id string) *view.Work
}

// Secrets opens what central sealed (rackd/conductor/secrets).
type Secrets interface {
	// Open returns a copy of a node's document with its secrets open.
	Open(n *node.Document) (*node.Document, error)
	// Unseal opens what central sealed for a piece of work.
	Unseal(d *work.Document, label seal.Label, sealed string) (string, error)
	// KeyFor returns the key that opens what central sealed for a piece of work.
	KeyFor(d *work.Document) (*seal.Key, error)
}

// Events tells central what steps see of machines (rackd/conductor).
type Events interface {
	// Insist publishes an event, trying until ctx ends.
	Insist(ctx context.Context, e work.Event) error
	// NotePower remembers which power state e told, unless err leaves open whether it did.
	NotePower(e work.Event, err error)
	// NoteStart remembers that a request for power has started a node's machine.
	NoteStart(node string)
	// NoteHardware remembers what o told of a node's machine, unless err leaves open whether it did.
	NoteHardware(node string, o *hardware.Observation, err error)
}

// Config of a Catalog.
type Config struct {
	// Name is that of this rackd.
	Name string
	// Documents is the rack's memory, for steps on child nodes.
	Documents Documents
	// Hardware resolves the interfaces of child nodes.
	Hardware *driver.Registry
	// Secrets opens what central sealed.
	Secrets Secrets
	// Events tells central what steps see of machines.
	Events Events
	// Reach returns an error for a URL that a BMC is not told to read for a caller of the API; nil: any may be.
	Reach func(ctx context.Context, url string) error
	// AutomatedClean is for nodes that do not say.
	AutomatedClean bool
	// CleanPriorities and VerifyPriorities take the place of the steps' own, by "interface.step".
	CleanPriorities, VerifyPriorities map[string]int
	// Log is the rackd's.
	Log *slog.Logger
}

// Catalog makes the flows of one rackd. It is safe for concurrent use.
type Catalog struct{ cfg Config }

// NewCatalog returns a catalog.
func NewCatalog(cfg Config) *Catalog { return &Catalog{cfg: cfg} }
