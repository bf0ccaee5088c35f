package site

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/groupkeys"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	rackd "github.com/ironyard/ironyard/rackd/daemon"
)

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with returns the lines that hold part.
func (l *lines) with(part string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// running is a whole fleet: central, hub, a site with its bus.
type running struct {
	*fleet
	info  daemon.Info
	hub   *membership.Member
	bus   *membership.Member
	lines *lines
}

// run starts central, a hub and the bus of site east, all by their tokens.
func run(t *testing.T, failover ...sites.Failover) *running {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{lines: &lines{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what everybody said:\n%s", strings.Join(r.lines.with(""), "\n"))
		}
	})
	log := slog.New(slog.NewTextHandler(r.lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	hub := loopback()
	ctx, cancel := context.WithCancel(context.Background())
	up, done := make(chan daemon.Info, 1), make(chan error, 1)
	go func() {
		done <- daemon.Run(ctx, daemon.Config{Database: storetest.SQLite(t), Listen: "127.0.0.1:0", EnrolListen: "127.0.0.1:0", Key: key, BusURL: "tls://" + hub + ":4222",
			Sites: []sites.Site{{Name: "east", Settings: bus.Settings{Replicas: 1}}}, Failover: failover, Log: log,
			KeyPace: groupkeys.Pace{Every: 100 * time.Millisecond, Settled: 3 * time.Second, Committed: 3 * time.Second}}, func(i daemon.Info) { up <- i })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("central ended with: %v", err)
		}
	})
	select {
	case r.info = <-up:
	case err := <-done:
		done <- nil // for the clean-up, which waits for it
		t.Fatalf("central: %v", err)
	}
	r.fleet = &fleet{t: t, key: key, store: r.info.Store, authority: r.info.Authority, central: join.Central{URL: r.info.EnrolEndpoint}, log: log}
	r.hub = r.join(join.Scope{Role: join.Hub, Name: "hub-1", Address: hub})
	r.serve(r.hub)
	r.bus = r.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: loopback()})
	r.serve(r.bus)
	return r
}

// rackd runs a rackd until the test ends or stop is called.
func (r *running) rackd(s join.Scope) (stop func()) {
	r.t.Helper()
	stop, _, _ = r.member(s)
	return stop
}

// member is rackd, and returns its folder and its keys, which it renews as the program does.
func (r *running) member(s join.Scope) (stop func(), m *membership.Member, ring *seal.Keyring) {
	r.t.Helper()
	m = r.join(s)
	ring, err := m.Keyring()
	if err != nil {
		r.t.Fatal(err)
	}
	folder, now := *m, make(chan struct{}, 1)
	log := r.log.With("rackd", s.Name)
	nc := r.connect(m, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn("the bus complains", "error", err) }))
	ctx, cancel := context.WithCancel(context.Background())
	up, done, fresh := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(fresh)
		folder.KeepFresh(ctx, log, now, func() {
			brought, err := folder.Keyring()
			if err == nil {
				err = ring.Adopt(brought)
			}
			if err != nil {
				log.Error("keys not taken up", "error", err)
			}
		})
	}()
	renew := func() {
		select {
		case now <- struct{}{}:
		default:
		}
	}
	go func() {
		done <- rackd.Run(ctx, rackd.Config{Name: m.Scope.Name, Group: m.Scope.Group, Conn: nc, OpenOnly: true, Keys: ring, RenewKeys: renew, Drivers: []string{"fake-hardware"},
			DataDir: filepath.Join(m.Dir, "data"), Log: log}, func() { close(up) })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-fresh
		if err := <-done; err != nil {
			r.t.Errorf("rackd %s ended with: %v", s.Name, err)
		}
	})
	r.t.Cleanup(stop)
	select {
	case <-up:
	case err := <-done:
		done <- nil
		r.t.Fatalf("rackd %s: %v", s.Name, err)
	case <-time.After(20 * time.Second):
		r.t.Fatalf("rackd %s is not ready; what the bus said: %q", s.Name, r.lines.with("Permissions Violation"))
	}
	return stop, m, ring
}

// Everything that a fleet does from enrolment to a group's failover, with each party's
// credentials: what they lack shows as a violation.
func TestAFleetWorksUnderItsPermissions(t *testing.T) {
	t.Parallel()
	r := run(t, sites.Failover{Group: "rack-a", To: []string{"rack-b"}})
	stop := r.rackd(join.Scope{Role: join.Rackd, Site: "east", Name: "a1", Group: "rack-a"})
	stopToo := r.rackd(join.Scope{Role: join.Rackd, Site: "east", Name: "a2", Group: "rack-a"})
	r.rackd(join.Scope{Role: join.Rackd, Site: "east", Name: "b1", Group: "rack-b", FailoverOf: []string{"rack-a"}})
	// Under the race detector, with a tenth of a processor, it takes a minute.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := r.info.Roster.WaitFor(ctx, func(live []bus.Member) bool { return len(live) == 3 }); err != nil {
		t.Fatalf("central does not see the rackds: %v\n%q", err, r.lines.with("Permissions Violation"))
	}
	o, err := operator.New(r.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(r.lines.with("Permissions Violation"), "\n"))
		}
	}
	var ids []string
	for i := range 4 {
		id, err := o.Enrol(ctx, operator.Machine{Name: fmt.Sprint("n", i), Driver: "fake-hardware", Group: "rack-a",
			DriverInfo: map[string]any{"fake_password": "secret"}, Clean: true})
		must(err)
		must(o.MakeAvailable(ctx, id))
		must(o.SetImage(ctx, id, operator.Image{URL: "http://example.org/i.raw", SHA256: "00", DiskFormat: "raw"}))
		must(o.Ask(ctx, id, "active", map[string]any{"meta_data": map[string]any{"hostname": "one"}}))
		ids = append(ids, id)
	}
	for _, id := range ids {
		_, err := o.Wait(ctx, id, provision.Active)
		must(err)
	}
	// The rack's own rackds go; the other group serves its nodes.
	stop()
	stopToo()
	must(r.info.Roster.WaitFor(ctx, func(live []bus.Member) bool { return len(live) == 1 }))
	must(o.Power(ctx, ids[0], "power off"))
	must(o.WaitPower(ctx, ids[0], "power off"))
	must(o.Ask(ctx, ids[1], "deleted", nil))
	_, err = o.Wait(ctx, ids[1], provision.Available)
	must(err)
	must(o.Delete(ctx, ids[1]))
	for _, line := range r.lines.with("Permissions Violation") {
		t.Error(line)
	}
}
