package lease

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/ring"
)

// The ring names no rackd for a node whose document that rackd cannot open. It says so when it takes
// the key up, under the same lease, and has its nodes again; where no rackd has the key nothing moves.
func TestARackdWithALateKeyIsPassedBy(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	l, changes := prepared(s, "a", func() error { return nil })
	need := ring.Need{Key: "new"}
	own := map[string][]string{"rack-a": {"old"}}
	keys := make(chan map[string][]string, 1)
	l.Needs(func(string) ring.Need { return need })
	l.Keys(func() map[string][]string {
		select {
		case own = <-keys:
		default:
		}
		return own
	})
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- l.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	until(t, changes, "a lives", func() bool { return l.Owner("n", "redfish", "rack-a") == "a" }) // no rackd has the key
	other := bus.Member{Name: "b", Group: "rack-a", Instance: "i", Lease: "l", Drivers: map[string]map[string][]string{"redfish": nil},
		Keys: map[string][]string{"rack-a": {"old", "new"}}}
	rev, err := s.Announce(t.Context(), other, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := func(name string) func() bool {
		return func() bool {
			for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
				if l.Owner(id, "redfish", "rack-a") != name {
					return false
				}
			}
			return true
		}
	}
	until(t, changes, "b has all nodes", all("b"))
	keys <- map[string][]string{"rack-a": {"new"}}
	if other.Keys = map[string][]string{"rack-a": {"old"}}; err == nil {
		_, err = s.Announce(t.Context(), other, rev)
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, changes, "a has all nodes", all("a"))
}
