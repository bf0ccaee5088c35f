package conductor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// phases lists the phases that events reported.
func (s *shelf) phases() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		for _, l := range e.Lines() {
			out = append(out, l.Phase+": "+l.Detail)
		}
	}
	return out
}

// The ring moves a node whose owner lives: the owner gives the work away at the next
// boundary between steps, and nobody takes it before.
func TestWorkMovesAtTheStepBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		gate := make(chan struct{})
		slow := driver.Step{Interface: "deploy", Name: "slow", Priority: 90, Kind: driver.Repeatable,
			Run: func(ctx context.Context, _ *driver.Task) (driver.Outcome, error) {
				log = append(log, "slow")
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return driver.Done(), ctx.Err()
			}}
		m := &machine{power: driver.PowerOff, deploy: []driver.Step{slow, did("after", &log)}}
		s := newShelf()
		s.alive.Store("a")
		oneNode(s)
		owner := owned("a")
		a, _, killA := conductorOn(t, s, "a", owner, m, nil)
		defer killA()
		b, _, killB := conductorOn(t, s, "b", owner, m, nil)
		defer killB()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		owner.Store("b")
		a.RingChanged()
		b.RingChanged()
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Owner != "a" || d.Epoch != 1 {
			t.Fatalf("owner %q, epoch %d in the middle of a step, want a still", d.Owner, d.Epoch)
		}
		close(gate)
		synctest.Wait()
		d := s.Work(nodeA).Doc
		if d.State != provision.Active || d.Owner != "b" || d.Epoch != 2 || strings.Join(log, " ") != "slow after" {
			t.Errorf("owner %q, epoch %d, state %q, steps %v", d.Owner, d.Epoch, d.State, log)
		}
		if p := s.phases(); !slices.Contains(p, "handed over: to b, at step deploy.slow") {
			t.Errorf("history: %q", p)
		}
	})
}

// noting is a step that tells of a phase and ends.
func noting(name string, before func()) driver.Step {
	return driver.Step{Interface: "deploy", Name: name, Priority: 50, Kind: driver.Repeatable,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			before()
			t.Record.Phase(name, "told")
			return driver.Done(), ctx.Err()
		}}
}

// Steps that follow each other at once cost one write each, and their phases go along
// with the next event, the end at last.
func TestPhasesTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nothing := func() {}
		m := &machine{power: driver.PowerOff, deploy: []driver.Step{noting("one", nothing), noting("two", nothing), noting("three", nothing)}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if p := s.phases(); strings.Join(p, ", ") != "one: told, two: told, three: told" {
			t.Errorf("phases %q", p)
		}
		if len(s.events) != 2 || s.events[0].Kind != work.StateChanged || s.events[1].Kind != work.WorkEnded || s.events[1].Power != string(driver.PowerOff) {
			t.Errorf("events %+v, want that the work was taken and how it ended", s.events)
		}
		if writes := s.rev - 1; writes != 5 {
			t.Errorf("%d writes, want 5: taken, three steps begun, ended", writes)
		}
	})
}

// The history has each line that a step says, also several of one name. What a step says again, because it runs again, is there once; one
// that never stops saying something else fills no history.
func TestStepsSayMoreThanOneLineOfAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		step := driver.Step{Interface: "deploy", Name: "erase", Priority: 50, Kind: driver.Repeatable,
			Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
				t.Record.Phase("erased", "the HDDs")
				t.Record.Phase("erased", "the SSDs")
				t.Record.Phase("counts", fmt.Sprint("to ", runs))
				if runs++; runs < 100 {
					return driver.Wait(time.Second), nil
				}
				return driver.Done(), nil
			}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff, deploy: []driver.Step{step}}, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		of := map[string]int{}
		for _, p := range s.phases() {
			name, _, _ := strings.Cut(p, ":")
			of[name]++
			of[p]++
		}
		if of["erased: the HDDs"] != 1 || of["erased: the SSDs"] != 1 || of["counts: to 0"] != 1 || of["counts"] > 20 {
			t.Errorf("history: %v", of)
		}
	})
}

// What has not been told when its rackd dies is told by the next one.
func TestUntoldPhasesOutliveTheirRackd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kill func()
		stuck := did("stuck", new([]string))
		stuck.Priority, stuck.Run = 10, func(ctx context.Context, _ *driver.Task) (driver.Outcome, error) {
			<-ctx.Done()
			return driver.Done(), ctx.Err()
		}
		m := &machine{power: driver.PowerOff, deploy: []driver.Step{noting("one", func() {}), stuck}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill = conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if p := s.phases(); len(p) != 0 {
			t.Fatalf("phases %q: the test shows nothing", p)
		}
		kill()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		synctest.Wait()
		kill()
		if p := s.phases(); len(p) != 2 || p[0] != "one: told" || !strings.HasPrefix(p[1], "takeover: from a") {
			t.Errorf("phases %q", p)
		}
	})
}

// A rackd whose own lease has just come back takes nothing from those who seem dead.
func TestNothingIsTakenBeforeTheRingHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, killA := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		killA()
		b, ms, killB := conductorOn(t, s, "b", owner, m, nil)
		defer killB()
		ms.unsettled.Store(true)
		owner.Store("b")
		b.RingChanged()
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Owner != "a" {
			t.Fatalf("taken by %q before the ring had settled", d.Owner)
		}
		ms.unsettled.Store(false)
		b.RingChanged()
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Owner != "b" || d.Epoch != 2 {
			t.Errorf("owner %q, epoch %d", d.Owner, d.Epoch)
		}
		if p := s.phases(); len(p) == 0 || !strings.HasPrefix(p[len(p)-1], "takeover: from a, which is dead, to b, at step deploy.deploy, 1.0 s after") {
			t.Errorf("history: %q", p)
		}
	})
}

// The clock of the last owner was an hour behind, or ahead: the next one neither ends
// the wait at once nor waits for ever.
func TestClocksThatAreOff(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: driver.PowerOff}
			m.deploy = []driver.Step{waitForAgent(m)}
			s := newShelf()
			oneNode(s)
			owner := owned("a")
			short := func(c *Config) {
				c.Deadlines = map[provision.State]time.Duration{provision.DeployWait: 10 * time.Minute}
			}
			_, _, killA := conductorOn(t, s, "a", owner, m, short)
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			synctest.Wait()
			killA()
			s.mu.Lock()
			w := *s.works[nodeA]
			w.Doc.Checkpoint.Deadline = w.Doc.Checkpoint.Deadline.Add(off)
			w.Doc.Checkpoint.Entered = w.Doc.Checkpoint.Entered.Add(off)
			s.works[nodeA] = &w
			s.mu.Unlock()
			b, _, killB := conductorOn(t, s, "b", owner, m, short)
			defer killB()
			owner.Store("b")
			b.RingChanged()
			time.Sleep(graceAfterTake - time.Second)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; !d.Open() {
				t.Fatalf("clock off by %v: ended at once: %+v", off, d.Result)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.DeployFail {
				t.Errorf("clock off by %v: still waiting, state %q", off, d.State)
			}
		})
	}
}

// Heartbeats that reach only dead rackds do not end the work: an agent that answers
// its owner lives.
func TestAnsweringAgentLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		m := &machine{power: driver.PowerOn}
		m.deploy = []driver.Step{{Interface: "deploy", Name: "write", Priority: 5, Kind: driver.Reattachable,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				if polls++; polls > 300 {
					return driver.Done(), nil
				}
				if _, _, err := t.Agent.Command(ctx, "id"); err != nil {
					return driver.Outcome{}, err
				}
				return driver.Wait(2 * time.Second), nil
			}}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) {
			c.Deadlines = map[provision.State]time.Duration{provision.DeployWait: time.Minute}
			c.NewAgent = func(string, func() []string, func() *work.Agent) driver.Agent { return answering{} }
		})
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active {
			t.Errorf("state %q, result %+v after %d polls", d.State, d.Result, polls)
		}
	})
}

type answering struct{ noAgent }

func (answering) Command(context.Context, string) (c agentapi.Command, ok bool, err error) {
	return c, true, nil
}

// At every place of every step the owner dies, once; the next owner ends the work as
// it would have ended, and no step that is neither repeatable nor done is lost.
func TestDeathAtEveryPlace(t *testing.T) {
	places := map[string][]string{}
	run := func(t *testing.T, name, detail string) (log []string, d work.Document, m *machine) {
		synctest.Test(t, func(t *testing.T) {
			m = &machine{power: driver.PowerOff}
			m.deploy = []driver.Step{waitForAgent(m), did("write", &log), did("boot", &log)}
			s := newShelf()
			oneNode(s)
			owner := owned("a")
			died := make(chan struct{}, 1)
			var killA func()
			stuck := make(chan struct{}) // where the dead goroutine stays until the end
			if name == "" {
				for _, n := range failpoint.Names() {
					restore, err := failpoint.Set(n, func(d string) {
						if !slices.Contains(places[n], d) {
							places[n] = append(places[n], d)
						}
					})
					if err != nil {
						t.Fatal(err)
					}
					defer restore()
				}
			} else {
				var once bool
				restore, err := failpoint.Set(name, func(at string) {
					if at != detail || once {
						return
					}
					once = true
					died <- struct{}{}
					<-stuck
				})
				if err != nil {
					t.Fatal(err)
				}
				defer restore()
			}
			_, held, kill := conductorOn(t, s, "a", owner, m, nil)
			killA = kill
			b, _, killB := conductorOn(t, s, "b", owner, m, nil)
			defer killB()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			called := false
			for range 200 {
				time.Sleep(time.Second)
				synctest.Wait()
				select {
				case <-died:
					held.held.Store(false)
					owner.Store("b")
					b.RingChanged()
					synctest.Wait()
				default:
				}
				c := b
				if w := s.Work(nodeA); w.Doc.State == provision.DeployWait && !called && (owner.Load() == "b" || name == "") {
					if name == "" {
						c = s.watch[0]
					}
					beat(t, c)
					called = true
				} else if w.Doc.State == provision.DeployWait && !called {
					beat(t, s.watch[0])
				}
				if !s.Work(nodeA).Doc.Open() {
					break
				}
			}
			close(stuck)
			killA()
			d = s.Work(nodeA).Doc
		})
		return log, d, m
	}
	if log, d, m := run(t, "", ""); d.State != provision.Active || strings.Join(log, " ") != "write boot" || len(m.writes) != 1 {
		t.Fatalf("undisturbed: steps %v, writes %v, state %q", log, m.writes, d.State)
	}
	tried := 0
	for name, details := range places {
		if !strings.HasPrefix(name, "conductor.") {
			continue
		}
		for _, detail := range details {
			tried++
			t.Run(fmt.Sprintf("%s@%s", name, strings.ReplaceAll(detail, "/", " ")), func(t *testing.T) {
				log, d, m := run(t, name, detail)
				if d.Open() || d.State != provision.Active || !d.Result.OK {
					t.Fatalf("state %q, step %s, result %+v", d.State, d.Checkpoint.Step, d.Result)
				}
				if n := len(slices.Compact(slices.Clone(log))); n != 2 || log[0] != "write" || log[len(log)-1] != "boot" {
					t.Errorf("steps ran: %v", log)
				}
				for _, w := range m.writes {
					if w != m.writes[0] && !strings.HasSuffix(w, "epoch 2") {
						t.Errorf("writes %v", m.writes)
					}
				}
			})
		}
	}
	if tried < 20 {
		t.Errorf("only %d places: %v", tried, places)
	}
}

// An operator gives up on a deploy, or on the instance, while its owner is dead and
// nobody has taken over yet: the next owner does what was asked for last.
func TestRequestInTheMiddleOfATakeover(t *testing.T) {
	for verb, want := range map[work.Verb]provision.State{work.Abort: provision.DeployFail, work.Delete: provision.Available} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: driver.PowerOff}
			m.deploy = []driver.Step{waitForAgent(m)}
			s := newShelf()
			oneNode(s)
			owner := owned("a")
			_, _, killA := conductorOn(t, s, "a", owner, m, nil)
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			synctest.Wait()
			killA()
			entry := map[work.Verb]provision.State{work.Abort: provision.DeployFail, work.Delete: provision.Deleting}[verb]
			id := ""
			if verb == work.Abort {
				id = s.abort(nodeA, entry)
			} else {
				id = s.request(nodeA, verb, entry, work.Args{})
			}
			b, _, killB := conductorOn(t, s, "b", owner, m, nil)
			defer killB()
			owner.Store("b")
			b.RingChanged()
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.ID != id || d.Open() || d.State != want {
				t.Errorf("%s: work %s (%s) in state %q, result %+v", verb, d.ID, d.Verb, d.State, d.Result)
			}
		})
	}
}

// Maintenance in the middle of work does not stop it, nor does a takeover mind it.
func TestMaintenanceInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, killA := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		killA()
		s.mu.Lock()
		n := *s.nodes[nodeA]
		n.Maintenance = true
		s.nodes[nodeA] = &n
		s.mu.Unlock()
		b, _, killB := conductorOn(t, s, "b", owner, m, nil)
		defer killB()
		owner.Store("b")
		b.RingChanged()
		synctest.Wait()
		beat(t, b)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active {
			t.Errorf("state %q, result %+v", d.State, d.Result)
		}
	})
}

// A rackd that has lost its bus sends machines elsewhere, for a while.
func TestBootOrderWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		s.nodes[nodeA].State = provision.Active
		c, ms, kill := conductorOn(t, s, "a", owned("a"), &machine{}, nil)
		defer kill()
		if o, ok := c.BootByUUID(nodeA); !ok || !o.Order.Disk {
			t.Errorf("with a lease: %+v", o)
		}
		ms.held.Store(false)
		ms.age.Store(int64(time.Minute))
		if o, ok := c.BootByUUID(nodeA); !ok || !o.Order.Again {
			t.Errorf("without a lease: %+v", o)
		}
		ms.age.Store(int64(trustAgain))
		if o, ok := c.BootByUUID(nodeA); !ok || !o.Order.Disk {
			t.Errorf("after %v without a lease: %+v", trustAgain, o)
		}
	})
}

// A rackd stood still until its lease was over, and has renewed it before it looks at
// anything else: what it had begun does not go on as if nothing had been.
func TestALeaseAnnouncedAnewIsAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{{Interface: "deploy", Name: "boot", Priority: 1, Kind: driver.Repeatable,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				<-gate // it stands still, between what it has read and what it writes
				return driver.Done(), t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOn)
			}}}
		s := newShelf()
		oneNode(s)
		a, held, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		held.lease.Add(1) // it ended, and another began
		gate <- struct{}{}
		synctest.Wait()
		if len(m.writes) != 0 {
			t.Errorf("written under a lease that was over: %v", m.writes)
		}
		a.RingChanged()
		close(gate)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active || d.Epoch != 2 || !slices.Equal(m.writes, []string{"power power on epoch 2"}) {
			t.Errorf("state %q, epoch %d, writes %v", d.State, d.Epoch, m.writes)
		}
	})
}
