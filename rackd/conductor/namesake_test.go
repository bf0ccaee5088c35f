package conductor

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// namesakes are two conductors of one name that both see themselves named, a step that
// takes ten seconds, and how often that was begun.
func namesakes(t *testing.T, s *shelf) (begun *atomic.Int32, first, second *members) {
	begun = new(atomic.Int32)
	m := &machine{power: driver.PowerOff, deploy: []driver.Step{{Interface: "deploy", Name: "slow", Priority: 10, Kind: driver.Repeatable,
		Run: func(ctx context.Context, _ *driver.Task) (driver.Outcome, error) {
			begun.Add(1)
			select {
			case <-ctx.Done():
				return driver.Outcome{}, ctx.Err()
			case <-time.After(10 * time.Second):
			}
			return driver.Done(), nil
		}}}}
	oneNode(s)
	_, first, stopFirst := conductorOn(t, s, "rackd", owned("rackd"), m, nil)
	_, second, stopSecond := conductorOn(t, s, "rackd", owned("rackd"), m, nil)
	second.lease.Store(7)
	t.Cleanup(stopFirst)
	t.Cleanup(stopSecond)
	return begun, first, second
}

// Two rackds of one name live, in two groups that stand in for each other. Work belongs
// to a lease: the one that has it keeps it.
func TestWorkBelongsToALeaseAndNotToAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		begun, first, second := namesakes(t, s)
		first.elsewhere.Store(second.ID())
		second.elsewhere.Store(first.ID())
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(5 * time.Second)
		if d := s.Work(nodeA).Doc; begun.Load() != 1 || d.Epoch != 1 {
			t.Errorf("the step was begun %d times, and the work is under epoch %d", begun.Load(), d.Epoch)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || begun.Load() != 1 {
			t.Errorf("the work is open: %v, its step was begun %d times", d.Open(), begun.Load())
		}
	})
}

// Even where neither knows of the other, work does not go back and forth without a pause.
func TestTakesOfOneWorkHavePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		begun, _, _ := namesakes(t, s)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(time.Minute)
		if d := s.Work(nodeA).Doc; begun.Load() > 12 || d.Epoch > 12 {
			t.Errorf("within a minute the step was begun %d times, and the work is under epoch %d", begun.Load(), d.Epoch)
		}
	})
}
