package conductor

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// setBack makes the work of nodeA what an owner has written whose clock was ahead:
// change is told the time by that clock.
func (s *shelf) setBack(ahead time.Duration, change func(cp *work.Checkpoint, then time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := *s.works[nodeA]
	change(&w.Doc.Checkpoint, time.Now().UTC().Add(ahead))
	s.rev++
	s.works[nodeA] = &view.Work{Doc: w.Doc, Revision: s.rev, Seen: time.Now()}
}

// calledSince waits for a call of the agent's that comes after it has begun.
func calledSince() driver.Step {
	return driver.Step{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			raw := t.Record.Handle()
			if raw == nil {
				t.Facts[driver.FactBoot] = driver.BootRamdisk
				return driver.Wait(0), t.Record.SaveHandle(ctx, t.Record.Now())
			}
			var since time.Time
			if err := json.Unmarshal(raw, &since); err != nil {
				return driver.Outcome{}, err
			}
			if t.Agent.Booted(since) {
				return driver.Done(), nil
			}
			return driver.Wait(0), nil
		}}
}

// The first call of an agent counts, though the rackd that began to wait for it had a
// clock that was ten minutes ahead.
func TestAgentsAreHeardWhenAClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{calledSince()}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		kill()
		if cp := s.Work(nodeA).Doc.Checkpoint; cp.Mark.IsZero() || cp.Handle == nil {
			t.Fatalf("checkpoint %+v has no mark", cp)
		}
		s.setBack(10*time.Minute, func(cp *work.Checkpoint, then time.Time) {
			cp.Mark = then
			cp.Handle, _ = json.Marshal(then)
		})
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.DeployWait {
			t.Fatalf("state %q before the agent calls, want wait call-back", d.State)
		}
		beat(t, c)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active {
			t.Errorf("state %q after the agent has called, want active", d.State)
		}
	})
}

// Within a process, too, no time is given twice or goes back.
func TestTicksGoForward(t *testing.T) {
	r := &runner{clock: time.Now().Add(time.Hour).UTC()}
	last := r.clock
	for range 3 {
		if next := r.Now(); !next.After(last) || next.Sub(last) > time.Second {
			t.Errorf("after %s came %s", last, next)
		} else {
			last = next
		}
	}
	if r.marked != last {
		t.Errorf("marked %s, want %s", r.marked, last)
	}
	r = &runner{}
	if now := r.Now(); time.Since(now).Abs() > time.Minute {
		t.Errorf("%s is not the time", now)
	}
}

// What this process measures it measures by the monotonic clock, whether it has set the
// deadline or taken it over.
func TestDeadlinesAreNotMovedByTheWallClock(t *testing.T) {
	c := New(Config{Deadlines: map[provision.State]time.Duration{provision.DeployWait: time.Minute}, Members: &members{}, Log: slog.New(slog.DiscardHandler)})
	r := newRunner(c, &node.Document{UUID: nodeA}, view.Work{Doc: work.Document{State: provision.DeployWait}}, nil)
	check := func(what string) {
		t.Helper()
		if d := r.doc.Checkpoint.Deadline; !strings.Contains(d.String(), " m=") || time.Until(d) > time.Minute {
			t.Errorf("%s: deadline %s has no monotonic reading or is too late", what, d)
		}
	}
	r.setDeadline()
	check("set")
	r.doc.Checkpoint.Deadline = r.doc.Checkpoint.Deadline.UTC() // as it is read from a document
	r.inheritTimes()
	check("taken over")
	r.beat = true
	if _, err := r.absorb(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("moved by a heartbeat")
}

// A wait for some seconds takes those seconds, not what another clock makes of them.
func TestWaitIsNotMadeLongerByAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOn}
		m.clean = []driver.Step{did("a", new([]string))}
		s := newShelf()
		oneNode(s)
		n := *s.Node(nodeA)
		n.State = provision.Manageable
		s.put(&n)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "power", Step: "wait", Args: map[string]any{"seconds": 7.0}}}})
		synctest.Wait()
		kill()
		s.setBack(10*time.Minute, func(cp *work.Checkpoint, then time.Time) {
			cp.Handle, _ = json.Marshal(map[string]any{"until": then}) // as the step keeps it
		})
		_, _, kill = conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() {
			t.Errorf("still in state %q, step %q", d.State, d.Checkpoint.Step)
		}
	})
}
