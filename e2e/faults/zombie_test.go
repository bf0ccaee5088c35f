package faults

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/e2e/faults/wallclock"
)

// A rackd that sleeps through the loss of its work wakes up in the middle of it. The
// machines' records, which judge reads, hold what it then did. make test has the worse of the two cases alone.
func TestZombie(t *testing.T) {
	for _, c := range []struct {
		name string
		// before it is woken
		meanwhile func(t *testing.T, pid int)
	}{
		{"paused", func(*testing.T, int) {}},
		// Its wall clock then says that no time has passed.
		{"paused, and its clock set back", func(t *testing.T, pid int) {
			if !wallclock.Supported() {
				t.Skip(wallclock.ErrUnsupported)
			}
			if err := wallclock.Step(pid, -time.Hour); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		if c.name == "paused" && !whole() && wallclock.Supported() {
			continue
		}
		t.Run(c.name, func(t *testing.T) { zombie(t, c.meanwhile) })
	}
}

func zombie(t *testing.T, meanwhile func(*testing.T, int)) {
	l, ctx := theLab(t), within(t, 3*time.Minute)
	nodes := l.nodes["alpha"]
	l.available(ctx, t, nodes)
	l.deploy(ctx, t, nodes)
	site := l.Sites[0]
	var victim *topology.Rackd
	if err := l.see.Await(ctx, func() bool {
		victim = l.busiest(site)
		return len(l.see.Owned(victim.Name())) >= 4
	}); err != nil {
		t.Fatal(err)
	}
	pid := victim.PID()
	if err := victim.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(pid, syscall.SIGCONT)
		if wallclock.Supported() {
			wallclock.Step(pid, 0)
		}
	})
	owned := l.see.Owned(victim.Name())
	l.taken(ctx, t, victim.Name(), owned)
	meanwhile(t, pid) // which wakes it, where it cannot be done to a sleeper
	if err := victim.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	woken := time.Now()
	l.active(ctx, t, nodes)
	// What it wrote after it woke it wrote under an epoch of its own.
	for _, s := range l.see.Seen() {
		was, had := owned[s.Node]
		if had && s.At.After(woken) && s.Doc.ID == was.Doc.ID && s.Doc.Owner == victim.Name() && s.Doc.Epoch <= was.Doc.Epoch {
			t.Errorf("node %s: %s wrote work %s under epoch %d after it had lost it", s.Node, victim.Name(), s.Doc.ID, s.Doc.Epoch)
		}
	}
	if slices.Contains(l.epochsOf(victim.Name(), woken), 0) {
		t.Error("work without an epoch")
	}
	l.judge(t)
}

// epochsOf are the epochs under which a rackd owned work since then.
func (l *lab) epochsOf(rackd string, since time.Time) (list []uint64) {
	for _, s := range l.see.Seen() {
		if s.Doc.Owner == rackd && s.At.After(since) {
			list = append(list, s.Doc.Epoch)
		}
	}
	return list
}
