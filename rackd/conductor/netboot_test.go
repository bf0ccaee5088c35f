package conductor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/view"
)

// A rackd that does not run the work boots the machine all the same, with the kernel
// that the checkpoint names.
func TestAnyRackdBootsTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		s.nodes[nodeA].DriverInfo = map[string]any{"deploy_kernel": "http://x/k", "deploy_ramdisk": "tftp://x/r"}
		m := &machine{power: driver.PowerOff}
		step := waitForAgent(m)
		boot := step.Run
		step.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			t.Facts[driver.FactKernel] = "sha256-k"
			return boot(ctx, t)
		}
		m.deploy = []driver.Step{step}
		owner := owned("a")
		_, _, killA := conductorOn(t, s, "a", owner, m, nil)
		defer killA()
		b, _, killB := conductorOn(t, s, "b", owner, m, nil)
		defer killB()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		o, ok := b.BootByMAC("52:54:00:00:00:01")
		if want := (bootorder.File{URL: "http://x/k", ID: "sha256-k"}); !ok || !o.Order.Boots() || o.Order.Load.Kernel != want {
			t.Errorf("order %+v", o)
		}
	})
}

// A machine that is quicker than the news of its work asks again: if it started again instead, it
// would boot its disk, and its agent would never call.
func TestMachineAsksAgainWhileItsNodeHasWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{{Interface: "deploy", Name: "idle", Priority: 100, Kind: driver.Reattachable, Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
			return driver.Wait(time.Hour), nil
		}}}
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		const mac = "52:54:00:00:00:01"
		if o, ok := c.BootByMAC(mac); !ok || o.Order.Again || !strings.Contains(o.Order.Reason, "nothing to boot") {
			t.Errorf("without work: %+v", o)
		}
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if o, ok := c.BootByMAC(mac); !ok || !o.Order.Again || !strings.Contains(o.Order.Reason, "does not boot from the network now") {
			t.Errorf("with work: %+v", o)
		}
	})
}

// A machine is quicker than the news that there is work at all: the bus itself is asked when it wants
// to know what to do, and not for what DHCP tells it, on which all machines wait.
func TestBusIsAskedBeforeAMachineIsRefused(t *testing.T) {
	const mac = "52:54:00:00:00:01"
	begun := work.Document{ID: "w", Node: nodeA, Generation: 1, Owner: "b", Epoch: 1, Seq: 2, Verb: work.Deploy, State: provision.Deploying,
		Checkpoint: work.Checkpoint{Facts: map[string]string{driver.FactBoot: driver.BootRamdisk}}}
	for name, c := range map[string]struct {
		change func(s *shelf, m *members)
		want   func(o BootOrder) bool
	}{
		"there is none": {func(*shelf, *members) {}, func(o BootOrder) bool { return !o.Order.Again && strings.Contains(o.Order.Reason, "nothing to boot") }},
		"there is some": {func(s *shelf, _ *members) { s.unseen = &view.Work{Doc: begun, Revision: 7} }, func(o BootOrder) bool { return o.Order.Boots() && o.State == provision.Deploying }},
		"it is over, which the node does not show yet": {func(s *shelf, _ *members) { s.nodes[nodeA].State = provision.Deploying }, func(o BootOrder) bool {
			return o.Order.Again && strings.Contains(o.Order.Reason, "its work is not known here")
		}},
		"the bus does not say": {func(s *shelf, _ *members) { s.cut = true }, func(o BootOrder) bool {
			return o.Order.Again && strings.Contains(o.Order.Reason, "cannot read its site's bus")
		}},
		"the bus has been away for long": {func(s *shelf, m *members) { s.cut = true; m.held.Store(false); m.age.Store(int64(time.Hour)) },
			func(o BootOrder) bool { return !o.Order.Again && strings.Contains(o.Order.Reason, "nothing to boot") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				conductor, m, kill := conductorOn(t, s, "a", owned("b"), &machine{}, nil)
				defer kill()
				s.mu.Lock()
				c.change(s, m)
				s.mu.Unlock()
				known, ok := conductor.BootByMAC(mac)
				if s.Work(nodeA) != nil {
					t.Error("the bus was asked although nobody asks what to do")
				}
				if o := conductor.Asked(known); !ok || !c.want(o) {
					t.Errorf("%+v", o)
				}
			})
		})
	}
}

// The rack's copy of the node still has the instance's fields while the link to central is cut: the cleaning after the instance
// boots without its kernel parameters, and the deploy before had them.
func TestACleaningBootsWithoutTheInstancesParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := newShelf(), &machine{power: driver.PowerOn}
		up := waitForAgent(m)
		up.In = driver.InClean
		m.deploy, m.clean = []driver.Step{waitForAgent(m)}, []driver.Step{up}
		m.teardown = []driver.Step{{Interface: "deploy", Name: "tear_down", Kind: driver.Repeatable, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			delete(t.Facts, driver.FactBoot)
			return driver.Done(), nil
		}}}
		oneNode(s)
		s.nodes[nodeA].InstanceInfo = map[string]any{"kernel_append_params": "quiet"}
		c, _, stop := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
			named := []driver.Named{{Name: "m", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
				"power": named, "management": named, "boot": {{Name: "ipxe", Impl: networkboot.IPXE()}}, "deploy": named}})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Hardware = reg
		})
		defer stop()
		boots := func(in provision.State, want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			o, _ := c.BootByMAC(macA)
			if state := s.Work(nodeA).Doc.State; state != in || !o.Order.Boots() || !slices.Equal(o.Order.Load.Params, want) {
				t.Errorf("in %q: %+v, %+v", state, o.Order, o.Order.Load)
			}
		}
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		boots(provision.DeployWait, "quiet")
		older := s.Node(nodeA)
		s.supersede(nodeA, work.Delete, provision.Deleting)
		boots(provision.CleanWait)
		s.put(older)
		boots(provision.CleanWait)
	})
}
