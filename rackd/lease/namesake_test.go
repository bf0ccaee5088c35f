package lease

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// inGroup is a lease of a name in a group of its own choice, which is not run yet.
func inGroup(s *bus.Site, name, group string) *Lease {
	return New(s, bus.Member{Name: name, Group: group, Drivers: map[string]map[string][]string{"redfish": nil}}, groups{}, func() error { return nil },
		func() {}, slog.New(slog.NewTextHandler(io.Discard, nil)))
}

// A rackd of another group that starts under the name of one that lives is refused, with
// what to change. The one that lives goes on.
func TestNamesakeInAnotherGroupIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	first, changes, stop := holder(t, s, "b")
	until(t, changes, "the first is there", func() bool { return first.Check() == nil })
	second := inGroup(s, "b", "rack-a")
	err := second.Run(t.Context())
	if !errors.Is(err, ErrNamesake) || !strings.Contains(err.Error(), "--name") || !strings.Contains(err.Error(), "rack-b") || second.ID() != "" {
		t.Errorf("the namesake ended with %v, lease %q", err, second.ID())
	}
	if err := first.Check(); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// What a namesake that was killed has left behind expires; the next one begins then.
func TestNamesakeThatIsDeadIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	dead := bus.Member{Name: "b", Group: "rack-a", Instance: "killed", Lease: "of the killed", StartedAt: time.Now()}
	if _, err := s.Announce(t.Context(), dead, 0); err != nil {
		t.Fatal(err)
	}
	next, changes, stop := holder(t, s, "b")
	until(t, changes, "the next one holds its lease", func() bool { return next.Check() == nil })
	if m, rev, err := s.Announced(t.Context(), "rack-a", "b"); err != nil || m != nil {
		t.Errorf("it began beside %+v, revision %d, %v", m, rev, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Two that start at the same moment do not both stay.
func TestOfTwoNamesakesThatStartTogetherOneStays(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan error, 2)
		leases := []*Lease{inGroup(s, "b", "rack-a"), inGroup(s, "b", "rack-b")}
		for _, l := range leases {
			go func() { ends <- l.Run(ctx) }()
		}
		select {
		case err := <-ends:
			if !errors.Is(err, ErrNamesake) {
				t.Errorf("one ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("both stay")
		}
		held := 0
		for _, l := range leases {
			if l.Check() == nil {
				held++
			}
		}
		if held > 1 {
			t.Error("both hold a lease")
		}
		cancel()
		if err := <-ends; err != nil && !errors.Is(err, ErrNamesake) {
			t.Error(err)
		}
	}
}
