package faults

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/process"
	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/e2e/faults/wallclock"
	"github.com/ironyard/ironyard/protocol/provision"
)

// kinds are the programs whose clocks are stepped and that are paused, by kind. The machines'
// program plays BMCs and agents, which have one clock here.
func (l *lab) kinds(site *topology.Site) map[string][]*process.Process {
	all := map[string][]*process.Process{"machines": {site.Machines.Process}}
	for _, c := range l.Central {
		all["central"] = append(all["central"], c.Process)
	}
	for _, r := range site.Rackds {
		all["rackd"] = append(all["rackd"], r.Process)
	}
	for _, s := range site.Bus.Servers {
		all["site's bus"] = append(all["site's bus"], s.Process)
	}
	for _, s := range l.Hub.Servers {
		all["hub"] = append(all["hub"], s.Process)
	}
	return all
}

// step makes the clock of a program wrong until the end of the test.
func step(t *testing.T, p *process.Process, by time.Duration) {
	t.Helper()
	pid := p.PID()
	if pid == 0 {
		t.Fatalf("%s is down", p.Name())
	}
	if err := wallclock.Step(pid, by); err != nil {
		t.Fatalf("%s: %v", p.Name(), err)
	}
	t.Cleanup(func() {
		if p.PID() == pid {
			if err := wallclock.Step(pid, 0); err != nil {
				t.Errorf("%s: %v", p.Name(), err)
			}
		}
	})
}

// whole reports whether the tests of clocks run with all their cases, as `make chaos` has them.
func whole() bool { return os.Getenv("IRONYARD_CHAOS") != "" }

// stepBy is more than any time-out, deadline or lease is long.
const stepBy = 5 * time.Hour

// Clocks step by hours in the middle of deploys, in each program, both ways. The deploys end,
// others begin and end while clocks are wrong, and the power of idle machines is read on. The
// quick part is all programs at once, apart from each other, without central: a replica whose
// clock was ahead numbers lines of history ahead of the others' until it is started again, and
// other tests share the fleet. `make chaos` runs the whole, after all others.
func TestClocksStep(t *testing.T) {
	if !wallclock.Supported() {
		t.Skip(wallclock.ErrUnsupported)
	}
	turns := map[string]map[string]time.Duration{"all apart": {"rackd": -stepBy, "site's bus": 2 * stepBy, "hub": -2 * stepBy, "machines": stepBy / 2}}
	if whole() {
		for _, kind := range []string{"central", "rackd", "site's bus", "hub", "machines"} {
			turns[kind+" ahead"] = map[string]time.Duration{kind: stepBy}
			turns[kind+" back"] = map[string]time.Duration{kind: -stepBy}
		}
	}
	for name, steps := range turns {
		t.Run(name, func(t *testing.T) {
			l, ctx := theLab(t), within(t, 5*time.Minute)
			site, nodes := l.Sites[0], l.nodes["alpha"][:8]
			l.available(ctx, t, nodes)
			l.deploy(ctx, t, nodes)
			l.working(ctx, t, "", 1, writing)
			for kind, list := range l.kinds(site) {
				if by, wrong := steps[kind]; wrong {
					for _, p := range list {
						step(t, p, by)
					}
				}
			}
			l.active(ctx, t, nodes)
			l.available(ctx, t, nodes)
			l.deploy(ctx, t, nodes)
			l.active(ctx, t, nodes)
			for _, r := range site.Rackds {
				l.readsOn(ctx, t, r)
			}
			l.judge(t)
		})
	}
}

// readsOn waits until a rackd has read the power of more machines than until now.
func (l *lab) readsOn(ctx context.Context, t *testing.T, r *topology.Rackd) {
	t.Helper()
	first := -1.0
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		n, err := r.Metric(ctx, `ironyard_rackd_power_reads_total{result="ok"}`)
		if err == nil && first < 0 {
			first = n
		}
		if err == nil && n > first {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s reads no machine's power any more: %v reads, %v", r.Name(), n, err)
		}
	}
}

// A host is paused for a minute, longer than leases and time-outs, with one program of each
// kind on it, or all of a kind: what they had begun ends when they go on, and nothing is done
// twice. The quick part is one rackd and one server of the site's bus for 20 s.
func TestHostPaused(t *testing.T) {
	long, turns := time.Minute, map[string]func(l *lab, site *topology.Site) []*process.Process{
		"a rack's host": func(l *lab, site *topology.Site) []*process.Process {
			return []*process.Process{l.busiest(site).Process, site.Bus.Servers[0].Process}
		},
	}
	if !whole() {
		long = 20 * time.Second
	} else {
		for _, kind := range []string{"central", "rackd", "site's bus", "hub", "machines"} {
			turns["all of "+kind] = func(l *lab, site *topology.Site) []*process.Process { return l.kinds(site)[kind] }
		}
	}
	for name, whose := range turns {
		t.Run(name, func(t *testing.T) {
			l, ctx := theLab(t), within(t, 6*time.Minute)
			site, nodes := l.Sites[0], l.nodes["alpha"][:8]
			l.available(ctx, t, nodes)
			l.deploy(ctx, t, nodes)
			l.working(ctx, t, "", 1, writing)
			paused := whose(l, site)
			for _, p := range paused {
				pid := p.PID()
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatalf("%s: %v", p.Name(), err)
				}
				t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) })
			}
			pause := time.NewTimer(long) // the fault itself, not a wait for something
			defer pause.Stop()
			select {
			case <-pause.C:
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
			for _, p := range paused {
				if err := p.Signal(syscall.SIGCONT); err != nil {
					t.Errorf("%s: %v", p.Name(), err)
				}
			}
			l.settled(ctx, t, nodes)
			l.judge(t)
		})
	}
}

// settled brings nodes to active: a deadline may have passed during the pause, which is a way
// out that operators begin again from.
func (l *lab) settled(ctx context.Context, t *testing.T, nodes []string) {
	t.Helper()
	if err := l.AwaitWhole(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.each(nodes, func(id string) error {
		return l.ops.Reach(ctx, id, provision.Active, l.Images[0].Info())
	}); err != nil {
		t.Fatal(err)
	}
}
