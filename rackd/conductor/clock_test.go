package conductor

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

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
