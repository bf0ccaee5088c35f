package driver

import (
	"context"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
)

// EventSource is implemented by management interfaces whose BMC can tell events by itself.
type EventSource interface {
	// Events opens the BMC's stream of events; ErrUnsupported where it has none. It writes nothing. ctx bounds the opening and
	// the life of the stream.
	Events(ctx context.Context, n *node.Document) (EventStream, error)
}

// BMCEvent is an event in the BMC's words. Events are lost, late and forged. People read the words, and nothing is done because of them.
type BMCEvent struct {
	// ID is the message's name in its registry, such as ResourceEvent.1.0.ResourcePowerStateChanged; empty: the BMC does not say.
	ID string
	// At is by the BMC's clock; zero: it tells no time.
	At time.Time
	// Severity is hardware.OK, Warning or Critical; empty: the BMC does not say.
	Severity string
	Text     string
	// Concerns reports whether the event may be of a node's machine; nil: it may be of any behind the BMC.
	Concerns func(*node.Document) bool
}

// MostBMCEvents bounds the events that one message of a BMC is read for.
const MostBMCEvents = 50

// EventStream is an open stream of a BMC's events. It belongs to one goroutine.
type EventStream interface {
	// Next waits until the BMC tells something, which is a reason to look at the machine. It returns what can be shown of that, which
	// may be nothing. An error says that the stream is over.
	Next() ([]BMCEvent, error)
	// Close ends the stream.
	Close() error
}

// EventSender is implemented by management interfaces whose BMC can post its events to an address.
type EventSender interface {
	// SendEvents has the BMC post its events to an HTTPS address, once; empty: it only cleans up. Before that it has the BMC forget
	// the destinations that are stale, and no others. It reads first, and what is already so is not written. ErrUnsupported: the BMC
	// posts no events.
	SendEvents(ctx context.Context, f Fence, n *node.Document, to string, stale func(destination string) bool) error
	// PostedEvents returns what can be shown of a post, which anyone may have made up.
	PostedEvents(post []byte) []BMCEvent
}
