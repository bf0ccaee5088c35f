package relay

import (
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestInboxKeepsABatchOfNodes holds that nodes which wait for a slow site do not fill the
// memory, and that what others were told stays as it is.
func TestInboxKeepsABatchOfNodes(t *testing.T) {
	for name, c := range map[string]struct {
		left store.Node
		most int
	}{
		"new":     {store.Node{Revision: 1, CreatedAt: time.UnixMicro(1)}, batchSize},
		"changed": {store.Node{Revision: 2, CreatedAt: time.UnixMicro(1)}, batchSize / 2},
	} {
		t.Run(name, func(t *testing.T) { keepsABatch(t, c.left, c.most) })
	}
}

func keepsABatch(t *testing.T, left store.Node, most int) {
	b := newInbox()
	b.take()
	told := make([]*store.Outbox, most+3)
	for i := range told {
		n := left
		told[i] = &store.Outbox{ID: strconv.Itoa(i), Node: "n", Left: &n}
	}
	b.add(told[:most-1])
	if len(b.full) != 0 {
		t.Error("it is full before there is a batch")
	}
	b.add(told[most-1:])
	if len(b.full) != 1 {
		t.Error("a batch does not make it full")
	}
	entries, missed := b.take()
	if len(entries) != len(told) || missed {
		t.Fatalf("%d entries, missed %v, want %d", len(entries), missed, len(told))
	}
	if len(b.full) != 0 {
		t.Error("emptied, it is full")
	}
	for i, o := range entries {
		if o.ID != told[i].ID || o.Node != told[i].Node || (o.Left != nil) != (i < most) {
			t.Errorf("entry %d: %+v", i, o)
		}
		if told[i].Left == nil {
			t.Errorf("entry %d was changed for others too", i)
		}
	}
	b.add(told[:1])
	if entries, _ := b.take(); entries[0].Left == nil {
		t.Error("emptied, it keeps no node")
	}
}
