package conductor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// slowly is a step that waits for d.
func slowly(name string, d time.Duration, log *[]string) driver.Step {
	return driver.Step{Interface: "deploy", Name: name, Kind: driver.Reattachable, Takes: map[string]driver.Argument{"how": {}},
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if left := time.Until(t.Entered.Add(d)); left > 0 {
				return driver.Wait(left), nil
			}
			how, _ := t.Args["how"].(string)
			*log = append(*log, name+how)
			return driver.Done(), nil
		}}
}

// goOn puts work on the shelf that goes on with what is there, as central's relay does.
func (s *shelf) goOn(id string, entry provision.State, abort bool) {
	s.mu.Lock()
	n, old := *s.nodes[id], s.works[id].Doc
	n.Generation++
	s.nodes[id] = &n
	d := work.Document{ID: old.ID + "+", Node: id, Generation: n.Generation, Verb: old.Verb, Args: old.Args, Requested: time.Now(),
		Entry: entry, EntryTarget: old.Target, Owner: old.Owner, Epoch: old.Epoch + 1, Checkpoint: old.Checkpoint}
	d.Args.Continues, d.Args.AbortAfter = old.Root(), abort
	if !abort {
		d.Args.LetGo = d.ID
	}
	d.Sign(testKey)
	s.rev++
	s.works[id] = &view.Work{Doc: d, Revision: s.rev}
	s.mu.Unlock()
	s.tell(id)
}

func TestListedStepsGetTheirArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, clean: []driver.Step{slowly("a", time.Second, &log), slowly("b", 0, &log)}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		asked := []work.Step{{Interface: "deploy", Step: "b", Args: map[string]any{"how": " fast"}}, {Interface: "deploy", Step: "a"},
			{Interface: "power", Step: "wait", Args: map[string]any{"seconds": 7.0}}, {Interface: "deploy", Step: "b"}, {Interface: "power", Step: "power_on"}}
		began := time.Now()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: asked})
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.CleanWait {
			t.Errorf("state %q while a step waits", d.State)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := strings.Join(log, ","); got != "b fast,a,b" || m.power != driver.PowerOn {
			t.Errorf("steps ran: %s; the machine is %q", got, m.power)
		}
		d := s.Work(nodeA).Doc
		if d.Open() || !d.Result.OK || d.State != provision.Manageable || d.Result.At.Sub(began) != 8*time.Second {
			t.Errorf("ended in %q after %s: %+v", d.State, d.Result.At.Sub(began), d.Result)
		}
		var info shownStep
		var last work.Event
		for _, e := range s.events {
			if e.State == provision.CleanWait && info.Step == "" {
				if err := json.Unmarshal(e.StepInfo, &info); err != nil {
					t.Fatal(err)
				}
				var list []shownStep
				if err := json.Unmarshal(e.Internal["clean_steps"], &list); err != nil || len(list) != 5 || list[0].Args["how"] != " fast" ||
					string(e.Internal["clean_step_index"]) != "1" {
					t.Errorf("the steps are told as %s, %v", e.Internal, err)
				}
			}
			last = e
		}
		if info.Interface != "deploy" || info.Step != "a" || info.Abortable || !info.RequiresRamdisk {
			t.Errorf("the running step is told as %+v", info)
		}
		if string(last.Internal["clean_steps"]) != "null" {
			t.Errorf("when all is over driver_internal_info is told %s", last.Internal)
		}
	})
}

// shownStep is a step as the API shows it.
type shownStep struct {
	Interface       string         `json:"interface"`
	Step            string         `json:"step"`
	Args            map[string]any `json:"args"`
	Abortable       bool           `json:"abortable"`
	RequiresRamdisk bool           `json:"requires_ramdisk"`
}

func TestHoldUntilLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, clean: []driver.Step{slowly("a", 0, &log), slowly("b", 0, &log)}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "a"},
			{Interface: "deploy", Step: "hold"}, {Interface: "deploy", Step: "b"}, {Interface: "deploy", Step: "hold"}}})
		time.Sleep(3 * 24 * time.Hour)
		if d := s.Work(nodeA).Doc; d.State != provision.CleanHold || !d.Open() || !d.Checkpoint.Deadline.IsZero() || strings.Join(log, "") != "a" {
			t.Fatalf("after three days: state %q, deadline %s, result %+v, steps %v", d.State, d.Checkpoint.Deadline, d.Result, log)
		}
		// The hold outlives its rackd.
		kill()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		defer kill()
		time.Sleep(24 * time.Hour)
		if d := s.Work(nodeA).Doc; d.State != provision.CleanHold || d.Owner != "b" {
			t.Fatalf("with another owner: state %q of %q", d.State, d.Owner)
		}
		s.goOn(nodeA, provision.CleanWait, false)
		time.Sleep(time.Minute)
		if d := s.Work(nodeA).Doc; d.State != provision.CleanHold || strings.Join(log, "") != "ab" {
			t.Fatalf("let go: state %q, steps %v, %+v", d.State, log, d.Result)
		}
		s.goOn(nodeA, provision.CleanWait, false)
		time.Sleep(time.Minute)
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || d.State != provision.Manageable || strings.Join(log, "") != "ab" {
			t.Errorf("in the end: state %q, steps %v, %+v", d.State, log, d.Result)
		}
		if got := s.states(); !slices.Equal(got, []string{"cleaning", "clean hold", "clean wait", "cleaning", "clean hold", "clean wait", "cleaning", "manageable"}) {
			t.Errorf("states reported: %v", got)
		}
	})
}

func TestAbortAfterTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOn, clean: []driver.Step{slowly("a", time.Minute, &log), slowly("b", 0, &log)}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "a"}, {Interface: "deploy", Step: "b"}}})
		time.Sleep(time.Second)
		s.goOn(nodeA, provision.CleanWait, true)
		time.Sleep(10 * time.Second)
		if d := s.Work(nodeA).Doc; !d.Open() || d.State != provision.CleanWait {
			t.Errorf("the step was cut short: state %q, %+v", d.State, d.Result)
		}
		time.Sleep(time.Minute)
		d := s.Work(nodeA).Doc
		if d.Open() || d.State != provision.CleanFail || d.Result.SetMaintenance || !strings.Contains(d.Result.Error, "aborted by request after step deploy.a") || strings.Join(log, "") != "a" {
			t.Errorf("state %q, steps %v, %+v", d.State, log, d.Result)
		}
	})
}

func TestAbortedServiceIsActiveAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOn}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Abort, provision.ServiceFail, work.Args{AbortedStep: "raid.create"})
		time.Sleep(time.Second)
		if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.Active || d.Target != provision.NoState || m.power != driver.PowerOn {
			t.Errorf("state %q, target %q, power %q, %+v", d.State, d.Target, m.power, d.Result)
		}
	})
}

const nodeB, nodeC = "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"

func TestStepsOnChildNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, clean: []driver.Step{slowly("a", time.Second, &log)}}
		s := newShelf()
		oneNode(s)
		for _, id := range []string{nodeB, nodeC} {
			s.nodes[id] = &node.Document{UUID: id, Driver: "t", State: provision.Available}
		}
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.alive.Store("other")
		on := func(step string, children ...string) work.Step {
			return work.Step{Interface: "deploy", Step: step, OnChildren: true, Children: children}
		}
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{on("power_on", nodeB), on("a", nodeB, nodeC)}})
		time.Sleep(time.Minute)
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || len(log) != 2 || m.power != driver.PowerOn {
			t.Errorf("%+v, steps %v, power %q", d.Result, log, m.power)
		}
		for name, c := range map[string]struct {
			step work.Step
			want string
		}{
			"a child of elsewhere":  {on("power_on", "44444444-4444-4444-8444-444444444444"), "is in a conductor group that rackd"},
			"a step it has not":     {on("paint", nodeB), "does not support step deploy.paint"},
			"a hold":                {on("hold", nodeB), "not for child nodes"},
			"a child that has work": {on("power_off", nodeC), "is locked: it is doing"},
		} {
			if name == "a child that has work" {
				s.mu.Lock()
				s.works[nodeC] = &view.Work{Doc: work.Document{ID: "w", Node: nodeC, Verb: work.Inspect, Owner: "other"}, Revision: 1}
				s.mu.Unlock()
			}
			s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{c.step}})
			time.Sleep(time.Minute)
			d := s.Work(nodeA).Doc
			if d.Open() || d.Result.OK || !strings.Contains(d.Result.Error, c.want) {
				t.Errorf("%s: %+v, want %q", name, d.Result, c.want)
			}
			s.mu.Lock()
			delete(s.works, nodeC)
			s.mu.Unlock()
		}
	})
}

// Nothing of a flow runs when one of its steps on child nodes cannot: the rack says so before central accepts it, and the work
// where the rack was not asked.
func TestStepsOnChildrenAreJudgedFirst(t *testing.T) {
	for name, bad := range map[string]work.Step{
		"a step that the child has not": {Interface: "deploy", Step: "paint", OnChildren: true, Children: []string{nodeB}},
		"a hold":                        {Interface: "power", Step: "hold", OnChildren: true, Children: []string{nodeB}},
		"a node of elsewhere":           {Interface: "power", Step: "power_on", OnChildren: true, Children: []string{"44444444-4444-4444-8444-444444444444"}},
		"arguments that nobody takes":   {Interface: "power", Step: "power_on", Args: map[string]any{"colour": "red"}, OnChildren: true, Children: []string{nodeB}},
		"no child at all":               {Interface: "power", Step: "power_on", OnChildren: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				m := &machine{power: driver.PowerOff, clean: []driver.Step{did("erase", &log)}}
				s := newShelf()
				oneNode(s)
				s.nodes[nodeB] = &node.Document{UUID: nodeB, Driver: "t", State: provision.Active}
				c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				steps := []work.Step{{Interface: "deploy", Step: "erase"}, bad}
				hw, err := c.cfg.Hardware.Resolve(s.nodes[nodeA])
				if err != nil {
					t.Fatal(err)
				}
				if err := c.CheckFlow(ask.Flow{Verb: work.Clean, Steps: steps}, s.nodes[nodeA], hw); err == nil {
					t.Error("the rack says nothing against it")
				}
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: steps})
				time.Sleep(time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.Open() || d.Result.OK || len(log) != 0 {
					t.Errorf("steps %v, %+v", log, d.Result)
				}
			})
		})
	}
}

// A child that is protected or in maintenance is left alone, also where that was said after the request was accepted.
func TestStepsLeaveSomeChildrenAlone(t *testing.T) {
	for name, c := range map[string]struct {
		child node.Document
		want  string // empty: the step runs
	}{
		"in maintenance":                    {node.Document{Maintenance: true}, "is in maintenance mode"},
		"protected":                         {node.Document{Protected: true}, "is protected"},
		"its power state could not be read": {node.Document{Maintenance: true, Fault: node.PowerFailure}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOn}
				s := newShelf()
				oneNode(s)
				s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Active})
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Service, provision.Servicing, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "power", Step: "wait", Args: map[string]any{"seconds": 10.0}},
					{Interface: "power", Step: "power_off", OnChildren: true, Children: []string{nodeB}}}})
				time.Sleep(5 * time.Second)
				n := c.child
				n.UUID, n.Driver, n.State = nodeB, "t", provision.Active
				s.put(&n)
				time.Sleep(time.Minute)
				synctest.Wait()
				d, want := s.Work(nodeA).Doc, driver.PowerOn
				if c.want == "" {
					want = driver.PowerOff
				}
				if d.Open() || d.Result.OK != (c.want == "") || !strings.Contains(d.Result.Error, c.want) || m.power != want {
					t.Errorf("power %q, %+v, want %q", m.power, d.Result, c.want)
				}
			})
		})
	}
}

// A reboot that somebody asked for ends the agent: the next one gets a token, also from
// a rackd that has never seen the machine ask for its ramdisk.
func TestTokenAfterAReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := waitForAgent(nil)
		up.Interface, up.Name = "deploy", "up"
		m := &machine{power: driver.PowerOn, clean: []driver.Step{up}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		a, _, killA := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "up"}, {Interface: "power", Step: "reboot"}}})
		synctest.Wait()
		beat(t, a)
		time.Sleep(time.Minute)
		if d := s.Work(nodeA).Doc; d.Checkpoint.Step != "power.reboot" || d.State != provision.CleanWait {
			t.Fatalf("at step %q in state %q: %+v", d.Checkpoint.Step, d.State, d.Result)
		}
		killA()
		b, _, killB := conductorOn(t, s, "b", owner, m, nil)
		defer killB()
		owner.Store("b")
		b.RingChanged()
		synctest.Wait()
		if reply, err := b.LookupAgent(lookupOf(b)); err != nil || reply.Config.AgentToken == agentapi.Masked {
			t.Errorf("the new agent is told %q, %v", reply.Config.AgentToken, err)
		}
	})
}

// A rackd that dies after the step that an abort waited for has ended, and before it has written
// the abort, leaves no step to begin.
func TestAbortAfterTheStepOutlivesItsRackd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOn, clean: []driver.Step{did("a", &log), did("b", &log)}}
		s := newShelf()
		oneNode(s)
		n := *s.nodes[nodeA]
		n.Generation, n.State = 2, provision.CleanWait
		s.put(&n)
		s.rev++
		s.works[nodeA] = &view.Work{Revision: s.rev, Doc: work.Document{ID: "w+", Node: nodeA, Generation: 2, Verb: work.Clean, Requested: time.Now(),
			Entry: provision.CleanWait, EntryTarget: provision.Manageable, Owner: "dead", Epoch: 2, Seq: 3, State: provision.Cleaning, Target: provision.Manageable,
			Args:       work.Args{Continues: "w", AbortAfter: true, Steps: []work.Step{{Interface: "deploy", Step: "a"}, {Interface: "deploy", Step: "b"}}},
			Checkpoint: work.Checkpoint{Step: "deploy.a", Index: 1, Phase: work.Ended}}}
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.CleanFail || !strings.Contains(d.Result.Error, "aborted by request after step deploy.a") || len(log) != 0 {
			t.Errorf("state %q, steps %v, %+v", d.State, log, d.Result)
		}
	})
}

// What a step reads from a child node's machine is told of the child.
func TestWhatAStepOnAChildReadsIsTheChilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOn, clean: []driver.Step{{Interface: "deploy", Name: "look", Kind: driver.Repeatable,
			Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
				t.Record.Observe(hardware.Observation{Health: new("of " + t.Node.UUID)})
				return driver.Done(), nil
			}}}}
		s := newShelf()
		oneNode(s)
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "look", OnChildren: true, Children: []string{nodeB}}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		seen := 0
		for _, e := range s.events {
			if e.Kind == work.HardwareObserved {
				if seen++; e.Node != nodeB || *e.Hardware.Health != "of "+nodeB {
					t.Errorf("told of node %s: %s", e.Node, *e.Hardware.Health)
				}
			}
		}
		if d := s.Work(nodeA).Doc; seen != 1 || d.Open() || !d.Result.OK {
			t.Errorf("told %d times, want once: %+v", seen, d.Result)
		}
	})
}

// A child that is switched on takes nothing from its parent, whose ramdisk's agent runs on.
func TestAChildsPowerLeavesTheParentsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, called := waitForAgent(nil), false
		m := &machine{power: driver.PowerOff, clean: []driver.Step{up, {Interface: "deploy", Name: "off", Kind: driver.Repeatable,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				return driver.Done(), t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOff)
			}}, {Interface: "deploy", Name: "ask", Kind: driver.Repeatable,
			Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
				called = t.Agent.Booted(t.Entered.Add(-time.Hour))
				return driver.Done(), nil
			}}}}
		s := newShelf()
		oneNode(s)
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "deploy"}, {Interface: "deploy", Step: "off"},
			{Interface: "power", Step: "power_on", OnChildren: true, Children: []string{nodeB}}, {Interface: "deploy", Step: "ask"}}})
		synctest.Wait()
		beat(t, c)
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || m.power != driver.PowerOn {
			t.Fatalf("the child is %q: %+v", m.power, d.Result)
		}
		if !called {
			t.Error("the parent's agent was forgotten when its child was switched on")
		}
	})
}
