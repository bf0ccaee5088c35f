package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/operators"
	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/e2e/faults/witness"
	"github.com/ironyard/ironyard/protocol/provision"
)

// lab is the fleet that the tests of this package share: each breaks something and
// leaves it whole.
type lab struct {
	*topology.Topology
	ops *operators.Client
	see *witness.Witness
	dir string
	// nodes are the UUIDs of the enrolled nodes by conductor group.
	nodes    map[string][]string
	machines []operators.Machine
	blamed   map[string]bool // what an earlier test has failed for
	ends     []func()
}

var shared struct {
	once sync.Once
	lab  *lab
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if l := shared.lab; l != nil {
		l.close()
		if code == 0 {
			os.RemoveAll(l.dir)
		} else {
			fmt.Fprintln(os.Stderr, "what is left of the run is in", l.dir)
		}
	}
	os.Exit(code)
}

// theLab returns the shared lab, whole.
func theLab(t *testing.T) *lab {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("starts a whole fleet: run `make e2e`, or set IRONYARD_E2E=1")
	}
	shared.once.Do(func() { shared.lab, shared.err = newLab() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := shared.lab.AwaitWhole(ctx); err != nil {
		t.Fatalf("not whole before the test: %v", err)
	}
	if err := shared.lab.lookAgain(ctx); err != nil {
		t.Fatalf("before the test: %v", err)
	}
	return shared.lab
}

var sites = []topology.SiteConfig{
	{Name: "east", Groups: []topology.GroupConfig{{Name: "alpha", Rackds: 3, Machines: 20}}},
	{Name: "west", Groups: []topology.GroupConfig{{Name: "beta", Rackds: 2, Machines: 6, Failover: []string{"gamma"}},
		{Name: "gamma", Rackds: 1, Machines: 6, Failover: []string{"beta"}}}},
}

// rackdArgs make rackds as impatient as the simulated machines are quick.
func rackdArgs() []string {
	args := []string{"--power-sync", "20s", "--power-recovery", "20s", "--bmc-timeout", "5s"}
	for _, s := range provision.States {
		if s.Deadline > 0 {
			args = append(args, "--deadline", fmt.Sprintf("%s=45s", s.State))
		}
	}
	return args
}

func newLab() (l *lab, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	l = &lab{nodes: map[string][]string{}, blamed: map[string]bool{}}
	if l.dir, err = os.MkdirTemp("", "ironyard-faults-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.close()
			err = fmt.Errorf("%w; what is left is in %s", err, l.dir)
		}
	}()
	programs, err := topology.Build(ctx, filepath.Join(l.dir, "bin"))
	if err != nil {
		return l, err
	}
	if l.Topology, err = topology.New(topology.Config{Programs: programs, Dir: l.dir, Sites: sites,
		CentralArgs: []string{"--debug"}, RackdArgs: rackdArgs()}); err != nil {
		return l, err
	}
	l.ends = append(l.ends, l.Topology.Close)
	if err := l.Start(ctx); err != nil {
		return l, err
	}
	if err := l.watch(); err != nil {
		return l, err
	}
	return l, l.enrol(ctx)
}

// watch lets the witness see the sites, and makes the operators' client.
func (l *lab) watch() error {
	requests, err := l.record("requests.jsonl")
	if err != nil {
		return err
	}
	sights, err := l.record("work.jsonl")
	if err != nil {
		return err
	}
	var endpoints []string
	for _, c := range l.Central {
		endpoints = append(endpoints, c.Endpoint)
	}
	l.ops = operators.NewClient(endpoints, &http.Client{Transport: &http.Transport{DialContext: l.Operator.DialContext, MaxIdleConnsPerHost: 8}}, requests)
	l.see = witness.New(sights)
	l.ends = append(l.ends, l.see.Close)
	for _, s := range l.Sites {
		nc, err := s.Bus.Connect("witness")
		if err != nil {
			return err
		}
		l.ends = append(l.ends, nc.Close)
		if err := l.see.Follow(context.Background(), s.Name, nc); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) record(name string) (*os.File, error) {
	f, err := os.Create(filepath.Join(l.dir, name))
	if err == nil {
		l.ends = append(l.ends, func() { f.Close() })
	}
	return f, err
}

// enrol makes the nodes and brings them to available.
func (l *lab) enrol(ctx context.Context) error {
	for _, s := range l.Sites {
		machines, err := s.Machines.Client.Machines(ctx)
		if err != nil {
			return err
		}
		for i, m := range machines {
			e, group := m.Enrolment, s.GroupOf(i)
			known := operators.Machine{Name: e.Name, Group: group, Driver: e.Driver, DriverInfo: e.DriverInfo, Properties: e.Properties,
				Interfaces: map[string]string{"inspect_interface": e.Interfaces["inspect"]}, MACs: e.MACs, Clean: i%2 == 0}
			l.machines = append(l.machines, known)
			id, err := l.ops.Enrol(ctx, known)
			if err != nil {
				return err
			}
			l.nodes[group] = append(l.nodes[group], id)
		}
	}
	return l.each(l.all(), func(id string) error {
		if err := l.ops.Do(ctx, id, "manage", provision.Manageable); err != nil {
			return err
		}
		if r := l.ops.SetImage(ctx, id, l.Images[0].Info()); !r.Accepted() {
			return fmt.Errorf("set the image of node %s: %s", id, r.Fault)
		}
		return l.ops.Do(ctx, id, "provide", provision.Available)
	})
}

// lookAgain finds the nodes by the machines' names: some were deleted and enrolled anew.
func (l *lab) lookAgain(ctx context.Context) error {
	nodes := map[string][]string{}
	for _, m := range l.machines {
		n, err := l.ops.Show(ctx, m.Name)
		if err != nil {
			return fmt.Errorf("machine %s: %w", m.Name, err)
		}
		nodes[m.Group] = append(nodes[m.Group], n.UUID)
	}
	l.nodes = nodes
	return nil
}

func (l *lab) all() (ids []string) {
	for _, list := range l.nodes {
		ids = append(ids, list...)
	}
	return ids
}

// each does f for all nodes side by side.
func (l *lab) each(nodes []string, f func(id string) error) error {
	var work sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, id := range nodes {
		work.Go(func() {
			if err := f(id); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

func (l *lab) close() {
	for i := len(l.ends) - 1; i >= 0; i-- {
		l.ends[i]()
	}
	l.ends = nil
}
