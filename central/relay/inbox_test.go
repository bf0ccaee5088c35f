package relay

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

func TestInbox(t *testing.T) {
	b := newInbox()
	select {
	case <-b.wake:
	default:
		t.Error("a new inbox is not awake")
	}
	if entries, missed := b.take(); len(entries) != 0 || !missed {
		t.Errorf("a new inbox holds %d entries, missed %v, want it to have missed what was before", len(entries), missed)
	}
	small := &store.Outbox{ID: "1"}
	b.add([]*store.Outbox{small})
	b.add([]*store.Outbox{small})
	if entries, missed := b.take(); len(entries) != 2 || missed {
		t.Errorf("%d entries, missed %v, want 2", len(entries), missed)
	}
	if len(b.wake) != 1 {
		t.Error("what was added did not wake")
	}
	if entries, missed := b.take(); len(entries) != 0 || missed {
		t.Errorf("emptied, it holds %d entries, missed %v", len(entries), missed)
	}

	many := make([]*store.Outbox, inboxEntries+1)
	for i := range many {
		many[i] = small
	}
	for what, entries := range map[string][]*store.Outbox{
		"too many":  many,
		"too large": {{ID: "2", Payload: strings.Repeat("x", inboxBytes+1)}},
	} {
		b.add(entries)
		if entries, missed := b.take(); len(entries) != 0 || !missed {
			t.Errorf("%s: it holds %d entries, missed %v, want it to send its reader to the outbox", what, len(entries), missed)
		}
	}
}
