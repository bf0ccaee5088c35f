// Package console holds open the serial consoles of a rackd's nodes and keeps what their machines wrote last. It opens graphical ones
// for their viewers, and keeps nothing of those.
//
// It may import protocol and rackd/driver; it declares what else it needs. Invariants:
//   - A console is held while the node's document says that it is enabled, by the rackd that owns the node, and by no other.
//     Every second it looks whether that is still so.
//   - A machine is read whether or not anybody looks. Readers have places of their own in its log, so that a slow one costs
//     the machine and other readers nothing.
//   - A log belongs to one tenancy of the node (node.Document.Tenancy). Another one begins empty, and a question of another
//     tenancy is refused.
//   - A log is in memory: LogBytes for each console, MaxConsoles consoles. A copy of it lies on the site's bus, sealed, where the next
//     rackd that holds the console goes on with it. It is written when the machine has written something. The rackd that owns the node
//     writes it, or that has just lost it, and over no copy that it has not seen. CopyRate and RackdCopyRate bound what that costs.
//   - A copy goes with its log: when the console is disabled, the node is gone, or it has another tenant.
//   - A viewer of a graphical console has a line of its own, from its first question until questions about it end. Each byte is
//     passed on, in order and once: a slow viewer slows its own line down. At most ahead bytes wait for it.
//   - What is typed passes the fence. Nothing that is typed or written goes to a log or an error.
package console

import (
	"log/slog"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// The bounds of consoles.
const (
	// LogBytes is how much of a machine's output is kept.
	LogBytes = 256 << 10
	// MaxConsoles bounds the consoles that one rackd holds.
	MaxConsoles = 500
	// bytesPerSecond is how fast a machine is read. A serial line of 921,600 baud writes less.
	bytesPerSecond = 256 << 10
)

// Nodes are this rackd's (rackd/conductor).
type Nodes interface {
	// Nodes lists all nodes of the group, those of other rackds too.
	Nodes() []string
	// Owns reports whether this rackd has its lease and owns the node.
	Owns(id string) bool
	// Owned returns a node with its secrets open, and its hardware; a nil node when another rackd owns it.
	Owned(id string) (*node.Document, *driver.Hardware, error)
}

// Documents is the rack's memory (rackd/view).
type Documents interface {
	Node(id string) *node.Document
	// ConsoleEnabled is the document's, which need not be read for it: it is asked at each change of a node.
	ConsoleEnabled(id string) bool
}

// Members says whether this rackd has its lease (rackd/lease).
type Members interface {
	// Confirm returns nil once the bus has renewed the lease, by a renewal that began after the call.
	Confirm() error
}

// Metrics counts what consoles do. Safe for concurrent use.
type Metrics interface {
	// ConsoleOpened counts attempts to open a console by result: ok, unreachable, denied or failed.
	ConsoleOpened(result string)
	// ConsoleBytes counts what machines wrote and what was typed.
	ConsoleBytes(written, typed int)
	// ConsoleCopied counts writes of copies by result: ok, conflict or failed; and their bytes.
	ConsoleCopied(result string, bytes int)
}

// Config of a Keeper.
type Config struct {
	// Name is that of this rackd.
	Name      string
	Nodes     Nodes
	Documents Documents
	Members   Members
	// Hardware tells which console a node has.
	Hardware *driver.Registry
	Metrics  Metrics
	// Copies keeps copies of the logs; nil: there are none.
	Copies Copies
	// Again are the first and the longest pause before a console that has ended is opened again; default 1 s and 60 s.
	Again, AgainAtMost time.Duration
	Log                *slog.Logger
}
