package lease

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// thief says what a member is under the key that the credentials of rackd "thief" of
// group rack-a allow, and no other.
func thief(t *testing.T, s *bus.Site, m bus.Member) {
	t.Helper()
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.JS.Publish(t.Context(), "$KV."+bus.AliveBucket+"."+bus.MemberKey("rack-a", "thief"), body, jetstream.WithMsgTTL(bus.LeaseTTL)); err != nil {
		t.Fatal(err)
	}
}

// A rackd whose key says rack-a.thief cannot join another group, nor take another's name.
func TestMembersThatLieAreNotMembers(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	b, changes, stop := holder(t, s, "b")
	until(t, changes, "b is there", func() bool { return b.Check() == nil && b.Owner("n", "redfish", "rack-b") == "b" })
	held := b.ID()
	drivers := map[string]map[string][]string{"redfish": nil}
	for what, m := range map[string]bus.Member{
		"another name":           {Name: "ghost", Group: "rack-a", Drivers: drivers},
		"another group":          {Name: "thief", Group: "rack-b", Drivers: drivers},
		"another name and group": {Name: "ghost", Group: "rack-b", Drivers: drivers, BootURL: "http://203.0.113.66", AgentURL: "https://203.0.113.66"},
		"the name of another":    {Name: "b", Group: "rack-b", Drivers: drivers, Lease: held},
		"no name":                {Group: "rack-a", Drivers: drivers},
		"words behind its URL":   {Name: "thief", Group: "rack-a", Drivers: drivers, BootURL: "http://203.0.113.66", AgentURL: "https://203.0.113.66 init=/bin/sh"},
		"a line behind its URL":  {Name: "thief", Group: "rack-a", Drivers: drivers, AgentURL: "https://203.0.113.66", BootURL: "http://203.0.113.66/\nshell"},
	} {
		m.Instance = what
		thief(t, s, m)
		_, _, stopNext := holder(t, s, "c") // what comes after it has been shown
		until(t, changes, "c is there", func() bool { _, there := b.Member("c"); return there })
		for _, got := range b.Members() {
			if got.Instance == what {
				t.Errorf("%s: a member %q of group %q", what, got.Name, got.Group)
			}
		}
		for _, n := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"} {
			if owner := b.Owner(n, "redfish", "rack-b"); owner != "b" {
				t.Errorf("%s: the ring gives a node of rack-b to %q", what, owner)
			}
		}
		if err := s.Alive.Delete(t.Context(), bus.MemberKey("rack-a", "thief")); err != nil {
			t.Fatal(err)
		}
		if err := stopNext(); err != nil {
			t.Error(err)
		}
		until(t, changes, "c is gone", func() bool { _, there := b.Member("c"); return !there })
		if b.Ended("b", held, "rack-b", time.Time{}) {
			t.Errorf("%s: b's lease was taken for over", what)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A namesake in another group that has written b's lease under its own key and withdraws
// that has withdrawn nothing of b's.
func TestLeaseOfANamesakeIsAnother(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	c, changes, stopC := holder(t, s, "c")
	l, _, stop := holder(t, s, "b")
	until(t, changes, "b is there", func() bool { _, there := c.Member("b"); return there })
	held := l.ID()
	for _, group := range []string{"rack-z", "rack-a"} { // one that has nothing to do with rack-b, and its failover
		namesake := bus.Member{Name: "b", Group: group, Instance: "namesake", Lease: held, StartedAt: time.Now()}
		rev, err := s.Announce(t.Context(), namesake, 0)
		if err != nil {
			t.Fatal(err)
		}
		until(t, changes, "the namesake is there", func() bool { return len(c.Members()) == 3 })
		if err := s.Withdraw(t.Context(), namesake, rev); err != nil {
			t.Fatal(err)
		}
		until(t, changes, "the namesake is gone", func() bool { return len(c.Members()) == 2 })
		if c.Ended("b", held, "rack-b", time.Time{}) {
			t.Errorf("b's lease was taken for over after a namesake of group %s had withdrawn it", group)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := stopC(); err != nil {
		t.Error(err)
	}
}
