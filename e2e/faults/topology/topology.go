package topology

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/protocol/seal"
)

// replicas of central and of each NATS cluster.
const replicas = 3

// thrifty keeps many daemons from fighting for few processors.
var thrifty = []string{"GOMAXPROCS=1"}

// Config of a topology.
type Config struct {
	Programs Programs
	Dir      string // for everything
	Sites    []SiteConfig
	// Seed decides which packets a troubled cable loses.
	Seed uint64
	// RackdArgs, CentralArgs and FleetArgs are added to the programs' command lines.
	RackdArgs, CentralArgs, FleetArgs []string
}

// Topology is a running fleet. Its fields do not change; safe for concurrent use.
type Topology struct {
	Dir      string
	Database *Database
	Hub      *Cluster
	Central  []*Central
	Sites    []*Site
	// Operator is a host beside central, from where requests are sent.
	Operator *network.Host
	Key      *seal.Key
	// Images are what machines can be deployed with.
	Images []Image

	cfg      Config
	switches []*network.Switch
	hosts    []*network.Host
}

// New makes the network and the configuration; nothing runs before Start. Close must
// follow.
func New(cfg Config) (*Topology, error) {
	t := &Topology{Dir: cfg.Dir, cfg: cfg}
	if err := t.build(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Topology) build() (err error) {
	// PostgreSQL, which is another user, must find its way down to its folder.
	if err := os.Chmod(t.Dir, 0o755); err != nil {
		return err
	}
	if t.Key, err = seal.GenerateKey(); err != nil {
		return err
	}
	if err := os.WriteFile(t.keyFile(), []byte(t.Key.Text()+"\n"), 0o600); err != nil {
		return err
	}
	if err := t.images(); err != nil {
		return err
	}
	core, err := t.newSwitch("core")
	if err != nil {
		return err
	}
	if t.Operator, err = t.host(core, "operator", 0, 100); err != nil {
		return err
	}
	at, err := t.host(core, "postgres", 0, 31)
	if err != nil {
		return err
	}
	if t.Database, err = newDatabase(t.cfg.Programs, t.Dir, at); err != nil {
		return err
	}
	hosts, err := t.hostsOf(core, "hub", 0, 11)
	if err != nil {
		return err
	}
	if t.Hub, err = newCluster(t.cfg.Programs, t.Dir, "hub", "", hosts, nil); err != nil {
		return err
	}
	for i, cfg := range t.cfg.Sites {
		s, err := t.newSite(core, i+1, cfg)
		if s != nil {
			t.Sites = append(t.Sites, s)
		}
		if err != nil {
			return fmt.Errorf("site %s: %w", cfg.Name, err)
		}
	}
	return t.newCentral(core)
}

func (t *Topology) keyFile() string { return filepath.Join(t.Dir, "fleet.key") }

func (t *Topology) newSwitch(name string) (*network.Switch, error) {
	s, err := network.NewSwitch(name)
	if err == nil {
		t.switches = append(t.switches, s)
	}
	return s, err
}

// host makes host number n of place, which is 0 for the core and a site's number else.
func (t *Topology) host(at *network.Switch, name string, place, n int) (*network.Host, error) {
	h, err := at.Host(name, netip.AddrFrom4([4]byte{10, 77, byte(place), byte(n)}))
	if err == nil {
		t.hosts = append(t.hosts, h)
	}
	return h, err
}

// hostsOf makes a cluster's hosts.
func (t *Topology) hostsOf(at *network.Switch, name string, place, from int) (list []*network.Host, err error) {
	for i := range replicas {
		h, err := t.host(at, fmt.Sprintf("%s-%d", name, i+1), place, from+i)
		if err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	return list, nil
}

// Start starts everything and returns when every rackd serves and central sees it.
func (t *Topology) Start(ctx context.Context) error {
	if err := errors.Join(t.Database.Start(), t.Hub.start()); err != nil {
		return err
	}
	for _, s := range t.Sites {
		if err := errors.Join(s.Bus.start(), s.Machines.Start()); err != nil {
			return err
		}
	}
	for _, s := range t.Sites {
		if err := s.awaitBus(ctx); err != nil {
			return err
		}
	}
	if err := t.Database.Await(ctx, t.Database.answers); err != nil {
		return err
	}
	for i, c := range t.Central {
		if err := c.Start(); err != nil {
			return err
		}
		if i == 0 { // the first brings the schema up to date
			if err := c.Await(ctx, c.Ready); err != nil {
				return err
			}
		}
	}
	for _, s := range t.Sites {
		// Central makes the site's buckets. A rackd that finds none would make its own, with
		// one copy, at the same moment.
		if err := s.awaitReplicas(ctx); err != nil {
			return err
		}
		for _, r := range s.Rackds {
			if err := r.Start(); err != nil {
				return err
			}
		}
		if err := s.Machines.Await(ctx, s.Machines.Answers); err != nil {
			return err
		}
	}
	return t.AwaitWhole(ctx)
}

// AwaitWhole returns when every bucket and stream has all its replicas, every rackd is
// healthy, and every replica of central is ready and sees all rackds alive.
func (t *Topology) AwaitWhole(ctx context.Context) error {
	for _, s := range t.Sites {
		if err := s.awaitReplicas(ctx); err != nil {
			return err
		}
		for _, r := range s.Rackds {
			if err := r.Await(ctx, r.Healthy); err != nil {
				return err
			}
		}
	}
	for _, c := range t.Central {
		if err := c.Await(ctx, func(ctx context.Context) error {
			if err := c.Ready(ctx); err != nil {
				return err
			}
			return t.seen(ctx, c)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (t *Topology) seen(ctx context.Context, c *Central) error {
	alive, err := c.Conductors(ctx)
	if err != nil {
		return err
	}
	for _, s := range t.Sites {
		for _, r := range s.Rackds {
			if !alive[r.Name()] {
				return fmt.Errorf("%s does not see %s alive", c.Name(), r.Name())
			}
		}
	}
	return nil
}

// Close ends everything. The folder stays.
func (t *Topology) Close() {
	for _, c := range t.Central {
		c.Close()
	}
	for _, s := range t.Sites {
		s.close()
	}
	if t.Hub != nil {
		t.Hub.close()
	}
	if t.Database != nil {
		t.Database.Close()
	}
	for _, h := range t.hosts {
		h.Close()
	}
	for _, s := range t.switches {
		s.Close()
	}
}

// getTimeout bounds one question to a daemon.
const getTimeout = 3 * time.Second
