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
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openSite(t *testing.T) (*bus.Site, *server.Server) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := bus.Open(t.Context(), nc, "", bus.Settings{})
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

// holder runs a lease until stop; changes are counted in the channel.
func holder(t *testing.T, s *bus.Site, name string) (l *Lease, changes chan struct{}, stop func() error) {
	t.Helper()
	changes = make(chan struct{}, 100)
	l = New(s, bus.Member{Name: name, Group: "rack-" + name, Drivers: map[string]map[string][]string{"redfish": nil}}, groups{}, func() { changes <- struct{}{} },
		slog.New(slog.NewTextHandler(io.Discard, nil)))
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

func TestRingFollowsWhoLives(t *testing.T) {
	s, _ := openSite(t)
	a, changes, stopA := holder(t, s, "a")
	until(t, changes, "a is alone", func() bool { return a.Owner("n", "redfish", "rack-a") == "a" })
	if err := a.Check(); err != nil {
		t.Errorf("the lease is not held: %v", err)
	}
	if owner := a.Owner("n", "redfish", "rack-b"); owner != "a" || a.Gone("a", "rack-b") {
		t.Errorf("rack-b is owned by %q while none of its own lives, want its failover a", owner)
	}
	_, _, stopB := holder(t, s, "b")
	until(t, changes, "both are there", func() bool { return len(a.Members()) == 2 })
	if owner := a.Owner("n", "redfish", "rack-b"); owner != "b" || a.Gone("b", "rack-b") {
		t.Errorf("rack-b is owned by %q when its own rackd is back", owner)
	}
	if a.Gone("nobody", "rack-a") {
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
	if d := time.Since(began); d > time.Second || !a.Gone("b", "rack-b") {
		t.Errorf("a graceful stop was seen after %v, want at once; b is gone: %t", d, a.Gone("b", "rack-b"))
	}
	if at, ok := a.LastSeen("b"); !ok || time.Since(at) > time.Second {
		t.Errorf("b was last seen %v ago, %t: it withdrew just now", time.Since(at), ok)
	}
	until(t, changes, "a may take what others left", func() bool { return a.Gone("nobody", "rack-a") })
	_, _, stopB = holder(t, s, "b")
	until(t, changes, "b is back", func() bool { return len(a.Members()) == 2 })
	if a.Gone("b", "rack-b") {
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

func TestYoungerProcessOfTheNameWins(t *testing.T) {
	s, _ := openSite(t)
	old, changes, stopOld := holder(t, s, "a")
	until(t, changes, "the old one is there", func() bool { return old.Check() == nil })
	_, younger, stopYounger := holder(t, s, "a")
	until(t, younger, "the younger one is there", func() bool { return true })
	if err := waitEnd(old); !errors.Is(err, ErrNotHeld) {
		t.Error(err)
	}
	if err := stopOld(); !errors.Is(err, ErrReplaced) {
		t.Errorf("the old process ended with %v, want ErrReplaced", err)
	}
	if err := stopYounger(); err != nil {
		t.Error(err)
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
	s, srv := openSite(t)
	l, changes, stop := holder(t, s, "a")
	until(t, changes, "held", func() bool { return l.Check() == nil })
	if n := l.Tenure(); n != 1 {
		t.Errorf("the first tenure is number %d", n)
	}
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
