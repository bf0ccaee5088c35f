package conductor

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/view"
)

// supersede puts work on the shelf that takes the place of open work without going on with it, as central's relay does.
func (s *shelf) supersede(id string, v work.Verb, entry provision.State) {
	s.mu.Lock()
	n, old := *s.nodes[id], s.works[id].Doc
	n.Generation++
	n.State = entry
	s.nodes[id] = &n
	d := work.Document{ID: old.ID + "+" + string(v), Node: id, Generation: n.Generation, Verb: v, Args: work.Args{Supersedes: old.ID, From: old.State}, Requested: time.Now(),
		Entry: entry, EntryTarget: provision.TargetOf(entry, provision.Event(v), "")}
	d.Sign(testKey)
	d.Epoch = old.Epoch + 1
	if old.Open() {
		d.Owner, d.Lease = old.Owner, old.Lease
	}
	d.Inherit(&old)
	s.rev++
	s.works[id] = &view.Work{Doc: d, Revision: s.rev}
	s.mu.Unlock()
	s.tell(id)
}

// forgeries counts documents that are told as forged.
type forgeries struct {
	noMetrics
	n atomic.Int64
}

func (a *forgeries) Forged(string) { a.n.Add(1) }

// An undeploy in "wait call-back" whose agent has called is no forgery, and the agent of the deploy is none of the cleaning.
func TestAnUndeployForgetsTheAgentAndIsNoForgery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &forgeries{}
		x := newTrial(t, func(cfg *Config) { cfg.Metrics = told })
		defer x.stop()
		x.lives.Store(true)
		x.agent(x.Conductor)
		time.Sleep(5 * time.Second)
		if told.n.Load() > 0 || x.doc().Checkpoint.Agent == nil {
			t.Fatalf("before: %d alarms, agent %+v", told.n.Load(), x.doc().Checkpoint.Agent)
		}
		x.s.supersede(nodeA, work.Delete, provision.Deleting)
		if a := x.doc().Checkpoint.Agent; a != nil {
			t.Errorf("the undeploy begins with %+v", a)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := told.n.Load(); n > 0 {
			t.Errorf("%d documents are told as forged", n)
		}
	})
}
