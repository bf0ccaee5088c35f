package ingest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestBacklogAsTheLastEventTellsIt(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	first := &jetstream.MsgMetadata{Timestamp: noon, NumPending: 9}
	last := &jetstream.MsgMetadata{Timestamp: noon.Add(time.Minute), NumPending: 5}
	idle := &jetstream.MsgMetadata{Timestamp: noon}
	for _, c := range []struct {
		name        string
		first, last *jetstream.MsgMetadata
		inHand      int
		want        Backlog
	}{
		{"a batch in hand", first, last, 5, Backlog{10, noon}},
		{"applied, and others wait", last, last, 0, Backlog{5, last.Timestamp}},
		{"all applied", idle, idle, 0, Backlog{}},
	} {
		if got := behind(c.first, c.last, c.inHand); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
