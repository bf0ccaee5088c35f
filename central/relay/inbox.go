package relay

import (
	"sync"

	"github.com/ironyard/ironyard/central/store"
)

// What an inbox holds at most; what comes on top is read from the outbox.
const (
	inboxEntries = 4096
	inboxBytes   = 16 << 20 // of config drives
	// inboxNodes are kept as their entries left them, more than 10 kB each, or twice as many that are
	// new, which are smaller and whose rows are not looked at. Those of later entries are read from their rows, when they are sent.
	inboxNodes = batchSize / 2
)

// inbox holds the entries for one site that this replica has committed and not yet
// published, so that they need not be read again. Safe for concurrent use.
type inbox struct {
	wake chan struct{}
	sent chan struct{} // work has come
	full chan struct{} // there is a whole batch

	mu      sync.Mutex
	entries []*store.Outbox
	bytes   int
	nodes   int  // those kept, each new one counted once, others twice
	missed  bool // there may be more in the outbox
}

// newInbox returns an inbox that is awake and has missed what was committed before.
func newInbox() *inbox {
	b := &inbox{wake: make(chan struct{}, 1), sent: make(chan struct{}, 1), full: make(chan struct{}, 1), missed: true}
	b.wake <- struct{}{}
	return b
}

// add takes in entries. It never blocks.
func (b *inbox) add(entries []*store.Outbox) {
	b.mu.Lock()
	sends := false
	for _, o := range entries {
		sends = sends || o.Object != ""
		b.bytes += len(o.Payload)
		switch {
		case o.Left == nil:
		case b.nodes >= 2*inboxNodes:
			without := *o // others are told of it too
			without.Left = nil
			o = &without
		case o.Left.IsNew():
			b.nodes++
		default:
			b.nodes += 2
		}
		b.entries = append(b.entries, o)
	}
	if len(b.entries) > inboxEntries || b.bytes > inboxBytes {
		b.entries, b.bytes, b.nodes, b.missed = nil, 0, 0, true
	}
	full := len(b.entries) >= batchSize || b.nodes >= 2*inboxNodes
	b.mu.Unlock()
	signal(b.wake)
	if sends {
		signal(b.sent)
	}
	if full {
		signal(b.full)
	}
}

// signal leaves a signal unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take empties the inbox. missed says that the outbox has to be read instead.
func (b *inbox) take() (entries []*store.Outbox, missed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, told := range []chan struct{}{b.sent, b.full} {
		select {
		case <-told: // what it told of is taken
		default:
		}
	}
	entries, missed = b.entries, b.missed
	b.entries, b.bytes, b.nodes, b.missed = nil, 0, 0, false
	return entries, missed
}
