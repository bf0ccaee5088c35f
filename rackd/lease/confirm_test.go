package lease

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// A hypervisor stopped this machine, clocks and all, and others saw its lease end: its own clocks
// say that the lease is held, the bus does not.
func TestConfirmKnowsWhatClocksDoNot(t *testing.T) {
	s, _ := openSite(t)
	l, changes, stop := holder(t, s, "a")
	until(t, changes, "held", func() bool { return l.Check() == nil && l.Owner("n", "redfish", "rack-a") == "a" })
	if err := l.Confirm(); err != nil {
		t.Fatalf("while it is held: %v", err)
	}
	id := l.ID()
	if err := s.Alive.Purge(t.Context(), bus.MemberKey("rack-a", "a")); err != nil {
		t.Fatal(err)
	}
	if err := l.Check(); err != nil {
		t.Fatalf("this machine's clocks know it already: %v", err)
	}
	if err := l.Confirm(); !errors.Is(err, ErrNotHeld) {
		t.Errorf("the lease %s has ended, %s is held: confirmed with %v", id, l.ID(), err)
	}
	if err := l.Confirm(); err != nil || l.ID() == id {
		t.Errorf("another lease has begun: %v, lease %s after %s", err, l.ID(), id)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := l.Confirm(); !errors.Is(err, ErrNotHeld) {
		t.Errorf("after the end: %v", err)
	}
}

// Writes that come at once share renewals.
func TestConfirmIsShared(t *testing.T) {
	s, _ := openSite(t)
	l, changes, stop := holder(t, s, "a")
	until(t, changes, "held", func() bool { return l.Check() == nil })
	revision := func() uint64 {
		_, rev, err := s.Announced(t.Context(), "rack-a", "a")
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	before := revision()
	var wait sync.WaitGroup
	for range 500 {
		wait.Go(func() {
			if err := l.Confirm(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := revision() - before; n < 1 || n > 50 {
		t.Errorf("%d renewals for 500 writes at once", n)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// While the bus is silent nothing is confirmed, and the wait has an end: that of the lease, or of Run.
func TestConfirmOfASilentBus(t *testing.T) {
	t.Parallel()
	s, srv := openSite(t)
	l, changes, stop := holder(t, s, "a")
	until(t, changes, "held", func() bool { return l.Check() == nil })
	srv.Shutdown()
	began := time.Now()
	err := l.Confirm()
	if took := time.Since(began); !errors.Is(err, ErrNotHeld) || took > bus.LeaseTTL {
		t.Errorf("after %s: %v", took, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A caller that waits when Run ends does not wait for longer.
func TestConfirmWhileTheRackdEnds(t *testing.T) {
	s, _ := openSite(t)
	l, changes, stop := holder(t, s, "a")
	until(t, changes, "held", func() bool { return l.Check() == nil })
	l.mu.Lock()
	l.next = &round{over: make(chan struct{})} // as join leaves it, before Run looks
	r := l.next
	l.mu.Unlock()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.over:
		if r.err != nil && !errors.Is(r.err, ErrNotHeld) {
			t.Error(r.err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a caller waits on")
	}
}
