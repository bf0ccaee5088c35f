package lease

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Central hears of a lease that has run out from those that saw it, and of no other end: one that is withdrawn says so itself.
func TestTheDeadAreTold(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	beats, err := s.Beats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, changes, stop := holder(t, s, "a")
	until(t, changes, "a is there", func() bool { return a.Check() == nil })
	left, dead := bus.Member{Name: "left", Group: "rack-b", Instance: "left"}, bus.Member{Name: "dead", Group: "rack-b", Instance: "dead"}
	rev, err := s.Announce(t.Context(), left, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Announce(t.Context(), dead, 0); err != nil {
		t.Fatal(err)
	}
	until(t, changes, "all are there", func() bool { return len(a.Members()) == 3 })
	if err := s.Withdraw(t.Context(), left, rev); err != nil {
		t.Fatal(err)
	}
	for limit := time.After(15 * time.Second); ; {
		select {
		case b := <-beats:
			if b.Gone == "" {
				continue
			}
			// This process announces all three of them, so each beats for it.
			if b.Gone != bus.MemberKey("rack-b", "dead") {
				t.Errorf("%+v tells of another", b)
			}
			if b.Key != bus.MemberKey("rack-a", "a") {
				continue
			}
		case <-limit:
			t.Fatal("nobody tells of the dead one")
		}
		break
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A busy rackd reads that another came and that its lease has run out in the same moment. It tells of that one by the bus's clock, and not
// of one that ended its own sooner.
func TestALateReaderTellsOfTheDead(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	beats, err := s.Beats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Announce(t.Context(), bus.Member{Name: "a", Group: "rack-a", Instance: "a"}, 0); err != nil {
		t.Fatal(err)
	}
	l, _ := prepared(s, "a", func() error { return nil })
	r := reader{l}
	r.Begin()
	r.Synced(nil)
	stored := time.Now().Add(-time.Minute)
	for _, m := range []struct {
		name   string
		lasted time.Duration
	}{{"thief", bus.LeaseTTL / 2}, {"dead", bus.LeaseTTL}} {
		body, err := json.Marshal(bus.Member{Name: m.name, Group: "rack-b", Instance: m.name})
		if err != nil {
			t.Fatal(err)
		}
		key := bus.MemberKey("rack-b", m.name)
		r.Apply(entry{key: key, value: body, op: jetstream.KeyValuePut, at: stored})
		r.Apply(entry{key: key, op: jetstream.KeyValuePurge, at: stored.Add(m.lasted)})
	}
	for limit := time.After(15 * time.Second); ; {
		select {
		case b := <-beats:
			if b.Gone == "" {
				continue
			}
			if b.Gone != bus.MemberKey("rack-b", "dead") {
				t.Errorf("%+v tells of another", b)
			}
			return
		case <-limit:
			t.Fatal("no beat tells of the dead one")
		}
	}
}

// Who says other keys than before says so under another edition.
func TestOtherKeysAreAnotherEdition(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	l, _ := prepared(s, "a", func() error { return nil })
	keys := map[string][]string{"rack-a": {"1"}}
	l.Keys(func() map[string][]string { return keys })
	edition := func() int {
		t.Helper()
		if err := l.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, _, err := s.Announced(t.Context(), "rack-a", "a")
		if err != nil || m == nil {
			t.Fatal(m, err)
		}
		return m.Edition
	}
	first := edition()
	if again := edition(); first == 0 || again != first {
		t.Errorf("a renewal is edition %d after %d", again, first)
	}
	keys = map[string][]string{"rack-a": {"2", "1"}}
	if other := edition(); other <= first {
		t.Errorf("other keys are edition %d after %d", other, first)
	}
}
