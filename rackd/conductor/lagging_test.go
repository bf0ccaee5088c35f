package conductor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// lagging loses the answer to one write, and is then shown by the bus for a while what was there
// before it, as by a replica that lags behind the leader.
type lagging struct {
	eyes
	mu     sync.Mutex
	armed  bool
	before *view.Work // nil: what the bus has is shown
	lags   int        // so many reads show what was before
}

func (l *lagging) Work(id string) *view.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil {
		return l.before
	}
	return l.eyes.Work(id)
}

func (l *lagging) UpdateWork(ctx context.Context, d work.Document, revision uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.armed || d.Checkpoint.Step == "" {
		return l.eyes.UpdateWork(ctx, d, revision)
	}
	l.armed = false
	l.before = l.eyes.Work(d.Node)
	if _, err := l.eyes.UpdateWork(ctx, d, revision); err != nil {
		return 0, err
	}
	return 0, errors.New("no answer in time")
}

func (l *lagging) RefreshWork(ctx context.Context, group, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lags--; l.lags < 0 {
		l.before = nil
	}
	return l.eyes.RefreshWork(ctx, group, id)
}

// A write whose answer was lost is found again, though a replica that lags says at first that it
// is not there: the leader has refused the next one for it.
func TestLaggingReplicaLosesNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		l := &lagging{eyes: eyes{s, "a"}, armed: true, lags: 3}
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) { c.Documents = l })
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		for s.Work(nodeA).Doc.State != provision.DeployWait {
			if err := driver.Pause(t.Context(), saveEvery); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		beat(t, c)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active || d.Epoch != 1 {
			t.Errorf("state %q under epoch %d: the work was taken for lost", d.State, d.Epoch)
		}
	})
}
