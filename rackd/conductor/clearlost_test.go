package conductor

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// dying is the bus of a rackd that dies before it can tell that an instance is torn down.
type dying struct {
	eyes
	dead *atomic.Bool
}

func (d dying) Publish(ctx context.Context, e work.Event) error {
	if d.dead.Load() || e.ClearInstance {
		d.dead.Store(true)
		return errors.New("no route to the bus")
	}
	return d.eyes.Publish(ctx, e)
}

// A rackd dies when it has written that an instance is torn down, and before it has told central to forget the instance. The rackd
// that goes on with the undeploy, or with what aborts its cleaning, tells it: the node is another tenant's next.
func TestATornDownInstanceIsForgottenAfterATakeoverAndAnAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		var dead atomic.Bool
		m := &machine{power: driver.PowerOff, clean: []driver.Step{inRamdisk("erase", true, time.Hour, &log)}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, func(c *Config) { c.Documents = dying{eyes{s, "a"}, &dead} })
		s.request(nodeA, work.Delete, provision.Deleting, work.Args{From: provision.Active})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; !dead.Load() || d.State != provision.Cleaning {
			t.Fatalf("state %q, it died: %t", d.State, dead.Load())
		}
		kill()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		defer kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.CleanWait {
			t.Fatalf("taken over: state %q, %+v", d.State, d.Result)
		}
		n := *s.Node(nodeA)
		n.State = provision.CleanFail // as central accepts the abort
		s.put(&n)
		s.beside(nodeA, work.Abort, work.Args{Aborts: work.Delete, Supersedes: s.Work(nodeA).Doc.ID})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		d := s.works[nodeA].Doc
		if d.Open() {
			t.Fatalf("the abort has not ended: %+v", d)
		}
		if !slices.ContainsFunc(s.events, func(e work.Event) bool { return e.ClearInstance }) {
			t.Errorf("the undeploy has ended in %q (%+v), and none of %d events says that the instance is gone", d.State, d.Result, len(s.events))
		}
	})
}
