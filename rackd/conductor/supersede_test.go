package conductor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
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

// An undeploy is taken in "service wait" and "wait call-back". While the BMC writes firmware the machine keeps its power; then it is
// switched off, whichever rackd has the node then. What the step would order next is not ordered.
func TestAnUndeployWaitsForTheBMC(t *testing.T) {
	for _, c := range []struct {
		name  string
		verb  work.Verb
		entry provision.State
		waits provision.State
		kill  bool  // the owner is lost while the undeploy waits
		more  bool  // the step has another order to give
		fails error // with which the step ends
	}{
		{"service", work.Service, provision.Servicing, provision.ServiceWait, false, false, nil},
		{"deploy", work.Deploy, provision.Deploying, provision.DeployWait, false, false, nil},
		{"takeover", work.Service, provision.Servicing, provision.ServiceWait, true, false, nil},
		{"another order", work.Service, provision.Servicing, provision.ServiceWait, false, true, nil},
		{"the update fails", work.Service, provision.Servicing, provision.ServiceWait, false, false, driver.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flash := flashing(20*time.Minute, func(time.Duration) string { return "writing firmware, 30 %" }, nil)
				look := flash.Run
				flash.Takes = map[string]driver.Argument{"password": {}}
				orders, wrong := 0, ""
				flash.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
					if c.verb == work.Service && t.Args["password"] != "hunter2" || t.WorkID != "work-1" {
						wrong = fmt.Sprintf("arguments %v of work %s", t.Args, t.WorkID)
					}
					if t.Record.Handle() == nil {
						orders++
					}
					out, err := look(ctx, t)
					if _, waits := out.Waiting(); err != nil || waits {
						return out, err
					}
					if c.more {
						t.Record.Busy("asked to write more")
						if err := t.Fence.Check(); err != nil {
							return driver.Outcome{}, err
						}
						orders++
					}
					return out, c.fails
				}
				m := &machine{power: driver.PowerOn, clean: []driver.Step{flash}}
				if c.verb == work.Deploy {
					flash.Priority = 50
					m.deploy = []driver.Step{flash}
				}
				m.teardown = direct.New(direct.Settings{}).TearDownSteps(nil)
				s := newShelf()
				oneNode(s)
				off := false
				s.nodes[nodeA].AutomatedClean = &off
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				args := work.Args{DisableRamdisk: true}
				if c.verb == work.Service {
					sealed, err := testKey.SealArgs(work.StepLabel(nodeA, "work-1", "deploy", "flash"), map[string]any{"password": "hunter2"})
					if err != nil {
						t.Fatal(err)
					}
					args.Steps = []work.Step{{Interface: "deploy", Step: "flash", Args: sealed}}
				}
				s.request(nodeA, c.verb, c.entry, args)
				time.Sleep(5 * time.Minute)
				if d := s.Work(nodeA).Doc; d.State != c.waits || d.Checkpoint.BMC == nil || len(m.written()) > 0 {
					t.Fatalf("state %q, BMC %+v, writes %q", d.State, d.Checkpoint.BMC, m.written())
				}
				s.supersede(nodeA, work.Delete, provision.Deleting)
				time.Sleep(time.Minute)
				if c.kill {
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				}
				defer kill()
				time.Sleep(13 * time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; len(m.written()) > 0 || !d.Open() || d.State != provision.Deleting || d.Checkpoint.BMC == nil {
					t.Fatalf("19 of 20 minutes of the flash are over: orders %q, state %q, BMC %+v, %+v", m.written(), d.State, d.Checkpoint.BMC, d.Result)
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || !d.Result.OK || d.State != provision.Available || m.power != driver.PowerOff || orders != 1 || wrong != "" {
					t.Errorf("state %q, %+v; the machine is %q after %q; %d orders; %s", d.State, d.Result, m.power, m.writes, orders, wrong)
				}
				if !toldOf(s, "waits for the BMC") || toldOf(s, "the BMC's work") != (c.fails != nil) {
					t.Error("the history does not tell what the undeploy waited for and what became of it")
				}
			})
		})
	}
}

// goOn puts work on the shelf that goes on with open work's flow, as central's relay does.
func (s *shelf) beside(id string, v work.Verb, args work.Args) {
	s.mu.Lock()
	n := *s.nodes[id]
	n.Generation++
	s.nodes[id] = &n
	old := s.works[id].Doc
	args.Continues = old.Root()
	d := work.Document{ID: fmt.Sprintf("work-%d", n.Generation), Node: id, Generation: n.Generation, Verb: v, Args: args, Requested: time.Now(), Entry: n.State,
		Owner: old.Owner, Lease: old.Lease, Epoch: old.Epoch + 1}
	d.Inherit(&old)
	d.Sign(testKey)
	s.rev++
	s.works[id] = &view.Work{Doc: d, Revision: s.rev}
	s.mu.Unlock()
	s.tell(id)
}

// What a step runs beside itself is to know whether it is another request that has taken the work's place, on this rackd, or another owner.
func TestAFenceTellsARequestFromAnotherOwner(t *testing.T) {
	for name, c := range map[string]struct {
		does func(s *shelf)
		here bool
	}{
		"a request beside the flow": {func(s *shelf) { s.beside(nodeA, work.Deploy, work.Args{Change: &work.Change{BootMode: "bios"}}) }, true},
		"an abort":                  {func(s *shelf) { s.beside(nodeA, work.Abort, work.Args{Aborts: work.Deploy}) }, false},
		"an undeploy":               {func(s *shelf) { s.supersede(nodeA, work.Delete, provision.Deleting) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fences []driver.Fence
				m := &machine{power: driver.PowerOn, deploy: []driver.Step{{Interface: "deploy", Name: "play", Priority: 10, Kind: driver.Reattachable, Abortable: true,
					Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
						fences = append(fences, t.Fence)
						return driver.Wait(time.Second), nil
					}}}}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				first := fences[0]
				if err := first.Check(); err != nil {
					t.Fatal(err)
				}
				c.does(s)
				synctest.Wait()
				if err := first.Check(); !errors.Is(err, driver.ErrFenced) || errors.Is(err, driver.ErrContinued) != c.here {
					t.Errorf("%v", err)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if last := fences[len(fences)-1]; c.here && (last.Work() == first.Work() || last.Check() != nil) {
					t.Errorf("the step goes on under %s, %v", last.Work(), last.Check())
				}
			})
		})
	}
}
