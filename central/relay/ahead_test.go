package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
)

// A replica accepts something and dies. Another, whose clock is five hours behind it, publishes that when it
// has waited for as long as any entry, and not before.
func TestEntriesOfAReplicaWhoseClockWasAhead(t *testing.T) {
	f := newFixture(t)
	other, err := store.Open(t.Context(), f.address, store.Options{Origin: "other", Now: func() time.Time { return time.Now().Add(-5 * time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	const takeover = 300 * time.Millisecond
	f.follow(f.newRelay(other, takeover))
	for { // when the relay begins it compares all keys with the rows, which is not what this test is about
		if _, err := f.store.Bucket(t.Context(), "", bus.NodesBucket); err == nil {
			break
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	n := f.enroll("n", "")
	f.eventually("published by the other", f.site.Nodes, bus.NodeKey("", n.UUID), func(body []byte) bool { return body != nil })
	if took := time.Since(began); took < takeover {
		t.Errorf("published after %v: its writer has %v for that", took, takeover)
	}
}
