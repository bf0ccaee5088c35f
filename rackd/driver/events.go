package driver

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
)

// EventSource is implemented by management interfaces whose BMC can tell events by itself.
type EventSource interface {
	// Events opens the BMC's stream of events; ErrUnsupported where it has none. It writes nothing. ctx bounds the opening and
	// the life of the stream.
	Events(ctx context.Context, n *node.Document) (EventStream, error)
}

// EventStream is an open stream of a BMC's events. It belongs to one goroutine.
type EventStream interface {
	// Next waits until the BMC tells something. What it tells is no more than a reason to look at the machine: events are lost, late and
	// forged. An error says that the stream is over.
	Next() error
	// Close ends the stream.
	Close() error
}

// EventSender is implemented by management interfaces whose BMC can post its events to an address.
type EventSender interface {
	// SendEvents has the BMC post its events to an HTTPS address, once; empty: it only cleans up. Before that it has the BMC forget
	// the destinations that are stale, and no others. It reads first, and what is already so is not written. ErrUnsupported: the BMC
	// posts no events.
	SendEvents(ctx context.Context, f Fence, n *node.Document, to string, stale func(destination string) bool) error
}
