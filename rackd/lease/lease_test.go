package lease

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side. Most of them wait for leases to end.
const atOnce = 8

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	goleak.VerifyTestMain(m)
}

func openSite(t *testing.T) (*bus.Site, *server.Server) {
	t.Helper()
	srv, _ := bustest.Server(t, t.TempDir())
	s, err := bus.Open(t.Context(), bustest.Connect(t, srv), "", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return s, srv
}

// groups: rack-a serves rack-b's nodes when nobody else does.
type groups struct{}

func (groups) Of(group string) []string {
	if group == "rack-b" {
		return []string{"rack-a"}
	}
	return nil
}
func (g groups) Serves(by, group string) bool {
	return by == group || slices.Contains(g.Of(group), by)
}

// prepared returns a lease that is not run yet.
func prepared(s *bus.Site, name string, fit func() error) (l *Lease, changes chan struct{}) {
	changes = make(chan struct{}, 100)
	return New(s, bus.Member{Name: name, Group: "rack-" + name, Drivers: map[string]map[string][]string{"redfish": nil}}, groups{}, fit,
		func() { changes <- struct{}{} }, slog.New(slog.NewTextHandler(io.Discard, nil))), changes
}

// holder runs a lease until stop; changes are counted in the channel.
func holder(t *testing.T, s *bus.Site, name string) (l *Lease, changes chan struct{}, stop func() error) {
	t.Helper()
	l, changes = prepared(s, name, func() error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, changes, func() error { cancel(); return <-done }
}

// until waits for a change of the ring after which ok holds.
func until(t *testing.T, changes chan struct{}, what string, ok func() bool) {
	t.Helper()
	limit := time.After(15 * time.Second)
	for !ok() {
		select {
		case <-changes:
		case <-limit:
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

// ended reports whether l takes the last lease of a rackd, which it has known for long,
// for over.
func ended(l *Lease, name, group string) bool {
	l.mu.Lock()
	id := l.withdrawn[bus.MemberKey(group, name)].Lease
	l.mu.Unlock()
	if m, ok := l.Member(name); ok {
		id = m.Lease
	}
	return l.Ended(name, id, group, time.Time{})
}

func TestRingFollowsWhoLives(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	a, changes, stopA := holder(t, s, "a")
	until(t, changes, "a is alone", func() bool { return a.Owner("n", "redfish", "rack-a") == "a" && a.Check() == nil })
	if owner := a.Owner("n", "redfish", "rack-b"); owner != "a" || ended(a, "a", "rack-b") {
		t.Errorf("rack-b is owned by %q while none of its own lives, want its failover a", owner)
	}
	_, _, stopB := holder(t, s, "b")
	until(t, changes, "both are there", func() bool { return len(a.Members()) == 2 })
	if owner := a.Owner("n", "redfish", "rack-b"); owner != "b" || ended(a, "b", "rack-b") {
		t.Errorf("rack-b is owned by %q when its own rackd is back", owner)
	}
	if ended(a, "nobody", "rack-a") {
		t.Error("who is not there is taken for dead before the ring has settled")
	}
	if owner := a.Owner("n", "ipmi", "rack-a"); owner != "" {
		t.Errorf("a hardware type that nobody has is owned by %q", owner)
	}
	began := time.Now()
	if err := stopB(); err != nil {
		t.Fatal(err)
	}
	until(t, changes, "b withdrew", func() bool { return len(a.Members()) == 1 })
	// An expired key is believed when the ring has settled; a withdrawn one at once.
	a.unsettle()
	if !ended(a, "b", "rack-b") {
		t.Error("b has withdrawn its lease and is not taken for gone")
	}
	if at, ok := a.LastSeen("b"); !ok || at.Before(began) {
		t.Errorf("b was last seen %v before it withdrew, %t", began.Sub(at), ok)
	}
	until(t, changes, "a may take what others left", func() bool { return ended(a, "nobody", "rack-a") })
	_, _, stopB = holder(t, s, "b")
	until(t, changes, "b is back", func() bool { return len(a.Members()) == 2 })
	if ended(a, "b", "rack-b") {
		t.Error("b is back and taken for gone")
	}
	if err := stopB(); err != nil {
		t.Fatal(err)
	}
	if err := stopA(); err != nil {
		t.Fatal(err)
	}
	if err := a.Check(); !errors.Is(err, ErrNotHeld) {
		t.Errorf("after the end: %v, want ErrNotHeld", err)
	}
}

// A second process under the name of a rackd that lives does not act for it: it waits,
// and ends when it has seen that the other one lives.
func TestSecondProcessOfTheName(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	first, changes, stopFirst := holder(t, s, "a")
	until(t, changes, "the first is there", func() bool { return first.Check() == nil })
	second, _ := prepared(s, "a", func() error { return nil })
	if err := second.Run(t.Context()); !errors.Is(err, ErrReplaced) || !errors.Is(second.Check(), ErrNotHeld) || second.ID() != "" {
		t.Errorf("the second process ended with %v; its lease: %v", err, second.Check())
	}
	until(t, changes, "the first process goes on", func() bool { return first.Check() == nil })
	if err := stopFirst(); err != nil {
		t.Error(err)
	}
}

// The next process of a rackd that was killed waits for its predecessor's lease to end,
// and then holds another one.
func TestNextProcessOfTheName(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	left := bus.Member{Name: "a", Group: "rack-a", Instance: "killed", Lease: "of the killed", StartedAt: time.Now()}
	if _, err := s.Announce(t.Context(), left, 0); err != nil {
		t.Fatal(err)
	}
	next, changes, stop := holder(t, s, "a")
	until(t, changes, "the next one holds the lease", func() bool { return next.Check() == nil })
	if m, _ := next.Member("a"); next.ID() == "" || next.ID() == left.Lease || m.Instance == left.Instance {
		t.Errorf("the lease is %q of %+v", next.ID(), m)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A process that stood still for so long that another one of its name has begun ends.
func TestYoungerProcessOfTheNameWins(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	old, changes, stop := holder(t, s, "a")
	until(t, changes, "the old one is there", func() bool { return old.Check() == nil })
	for { // its key has expired, and the younger one was faster
		m, rev, err := s.Announced(t.Context(), "rack-a", "a")
		if err != nil {
			t.Fatal(err)
		}
		younger := bus.Member{Name: "a", Group: "rack-a", Instance: "younger", StartedAt: m.StartedAt.Add(time.Hour)}
		if _, err = s.Announce(t.Context(), younger, rev); err == nil {
			break
		} else if !errors.Is(err, bus.ErrLeaseLost) {
			t.Fatal(err)
		}
	}
	if err := waitEnd(old); !errors.Is(err, ErrNotHeld) {
		t.Error(err)
	}
	if err := stop(); !errors.Is(err, ErrReplaced) {
		t.Errorf("the old process ended with %v, want ErrReplaced", err)
	}
}

// A renewal whose answer is lost is the same lease; a key that is gone is the end of it.
func TestLeaseGoesOnWhileNobodyElseHasWrittenIt(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	l, _ := prepared(s, "a", func() error { return nil })
	renew := func() string {
		t.Helper()
		if err := l.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.ID()
	}
	first := renew()
	if again := renew(); again != first {
		t.Errorf("a renewal changed the lease from %q to %q", first, again)
	}
	if _, err := s.Announce(t.Context(), l.self, l.rev); err != nil { // and l never hears of it
		t.Fatal(err)
	}
	if again := renew(); again != first {
		t.Errorf("a lost answer changed the lease from %q to %q", first, again)
	}
	if err := s.Alive.Purge(t.Context(), bus.MemberKey("rack-a", "a")); err != nil {
		t.Fatal(err)
	}
	if again := renew(); again == first {
		t.Error("the key was gone, and the lease goes on")
	}
}

// A rackd that may not know what its bus holds lets its lease end.
func TestLeaseOfTheUnfitEnds(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	unfit := errors.New("unfit")
	l, _ := prepared(s, "a", func() error { return unfit })
	if err := l.renew(t.Context()); !errors.Is(err, unfit) || l.Check() == nil {
		t.Errorf("renewed: %v, %v", err, l.Check())
	}
	if m, _, err := s.Announced(t.Context(), "rack-a", "a"); err != nil || m != nil {
		t.Errorf("announced all the same: %+v, %v", m, err)
	}
}

// waitEnd returns once the lease is not held any more.
func waitEnd(l *Lease) error {
	for range time.Tick(20 * time.Millisecond) {
		if err := l.Check(); err != nil {
			return err
		}
	}
	return nil
}

// With the bus gone the lease ends by itself, before others could see it expire.
func TestLeaseEndsWithoutTheBus(t *testing.T) {
	t.Parallel()
	s, srv := openSite(t)
	l, changes, stop := holder(t, s, "a")
	until(t, changes, "held", func() bool { return l.Check() == nil })
	srv.Shutdown()
	began := time.Now()
	if err := waitEnd(l); !errors.Is(err, ErrNotHeld) {
		t.Fatal(err)
	}
	if d := time.Since(began); d > bus.LeaseTTL {
		t.Errorf("the lease held for %v without a bus, its TTL is %v", d, bus.LeaseTTL)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
