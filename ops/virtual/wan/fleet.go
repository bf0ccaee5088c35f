// Package wan runs a fleet over a WAN in one process: central at a hub, and sites,
// each with its own bus and rackds of fake machines, behind leaf links that can be
// cut and that count what crosses them. Tests of what happens when a link is down,
// and the benchmark of what a link costs, are its users.
//
// It may import everything. There is one central on SQLite; e2e/faults has more of
// each, as processes.
package wan

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	central "github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/central/sites/sitetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
	rackd "github.com/ironyard/ironyard/rackd/daemon"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

// Options of a fleet.
type Options struct {
	// Sites maps the name of each site to the number of its rackds. A site has one
	// conductor group, of the same name.
	Sites map[string]int
	// Delay is how long each step of a fake machine lasts that does not say.
	Delay time.Duration
	// Change, if set, changes central's configuration.
	Change func(*central.Config)
}

// Fleet is a running fleet.
type Fleet struct {
	central.Info
	Hub   *server.Server
	Sites map[string]*Site
}

// Site is one site of a fleet.
type Site struct {
	Server *server.Server
	Link   *sitetest.Link
	// Bus is the site's bus as its rackds reach it, without the link.
	Bus *bus.Site
}

// Start starts a fleet and returns once central sees all rackds. It runs until t ends.
func Start(t testing.TB, o Options) *Fleet {
	t.Helper()
	dir := t.TempDir()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{Hub: sitetest.Hub(t), Sites: map[string]*Site{}}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	c := central.Config{Database: "sqlite:" + filepath.Join(dir, "central.db"), Listen: "127.0.0.1:0", Key: key,
		BusURL: f.Hub.ClientURL(), Log: log}
	rackds := 0
	for name, n := range o.Sites {
		f.Sites[name] = startSite(t, f.Hub, name, n, rackd.Config{Keys: keyring(t, key, name), Drivers: []string{"fake-hardware"},
			Fake: fake.Options{DefaultDelay: o.Delay}, DataDir: dir, Log: log, PowerSync: 2 * time.Minute})
		c.Sites = append(c.Sites, sites.Site{Name: name, Groups: []string{name}})
		rackds += n
	}
	if o.Change != nil {
		o.Change(&c)
	}
	ready := make(chan central.Info, 1)
	ended := run(t, func(ctx context.Context) error {
		return central.Run(ctx, c, func(i central.Info) { ready <- i })
	})
	select {
	case f.Info = <-ready:
	case <-ended:
		t.Fatal("central ended at once")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := f.Roster.WaitFor(ctx, func(m []bus.Member) bool { return len(m) == rackds }); err != nil {
		t.Fatalf("central does not see %d rackds but %v: %v", rackds, f.Roster.Conductors(), err)
	}
	return f
}

func keyring(t testing.TB, key *seal.Key, group string) *seal.Keyring {
	t.Helper()
	k, err := key.ForGroup(group)
	if err != nil {
		t.Fatal(err)
	}
	return seal.NewKeyring(group, k)
}

func startSite(t testing.TB, hub *server.Server, name string, rackds int, c rackd.Config) *Site {
	t.Helper()
	s := &Site{}
	s.Server, s.Link = sitetest.Leaf(t, hub, name, filepath.Join(c.DataDir, name))
	var err error
	if s.Bus, err = bus.Open(t.Context(), sitetest.Dial(t, s.Server), "", bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	for i := range rackds {
		c := c
		c.Name, c.Group, c.Conn = fmt.Sprintf("%s-%d", name, i), name, sitetest.Dial(t, s.Server)
		c.DataDir = filepath.Join(c.DataDir, c.Name)
		run(t, func(ctx context.Context) error { return rackd.Run(ctx, c, nil) })
	}
	return s
}

// run runs a daemon until t ends; ended is closed when it has ended.
func run(t testing.TB, daemon func(context.Context) error) (ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := daemon(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("a daemon ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return done
}
