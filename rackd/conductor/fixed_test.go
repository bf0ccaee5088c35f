package conductor

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Automated cleaning goes on under a rackd with other flags, or of another version. It runs
// the list that was made first, or it fails: no step is left out, none runs twice.
func TestASuccessorRunsTheListThatWasFixed(t *testing.T) {
	for name, c := range map[string]struct {
		flags  map[string]int
		off    bool     // the successor cleans nothing of its own accord
		steps  []string // of the successor's version; nil: the same
		wants  string   // steps that ran
		failed string   // part of the error
	}{
		"the same":                {wants: "a,b,erase"},
		"erase comes first":       {flags: map[string]int{"deploy.erase": 40}, wants: "a,b,erase"},
		"erase first, a last":     {flags: map[string]int{"deploy.erase": 40, "deploy.a": 5}, wants: "a,b,erase"},
		"erase is switched off":   {flags: map[string]int{"deploy.erase": 0}, wants: "a,b,erase"},
		"what runs is off":        {flags: map[string]int{"deploy.b": 0}, wants: "a,b,erase"},
		"no automated cleaning":   {off: true, wants: "a,b,erase"},
		"it has more steps":       {steps: []string{"new", "a", "b", "newer", "erase"}, wants: "a,b,erase"},
		"it has no erase":         {steps: []string{"a", "b"}, wants: "a", failed: "deploy.erase was in the plan"},
		"it lacks what has ended": {steps: []string{"b", "erase"}, wants: "a", failed: "deploy.a was in the plan"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				stepsOf := func(names ...string) (steps []driver.Step) {
					for i, n := range names {
						s := slowly(n, time.Minute, &log)
						s.Priority, s.In = 100-i, driver.InClean
						steps = append(steps, s)
					}
					return steps
				}
				m := &machine{power: driver.PowerOff, clean: stepsOf("a", "b", "erase")}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Provide, provision.Cleaning, work.Args{})
				time.Sleep(90 * time.Second) // b runs
				kill()
				owner.Store("b")
				if c.steps != nil {
					m.clean = stepsOf(c.steps...)
				}
				_, _, kill = conductorOn(t, s, "b", owner, m, func(cfg *Config) { cfg.CleanPriorities, cfg.AutomatedClean = c.flags, !c.off })
				defer kill()
				time.Sleep(10 * time.Minute)
				d := s.Work(nodeA).Doc
				if got := strings.Join(log, ","); got != c.wants || d.Open() {
					t.Errorf("ran %s, want %s; open %v", got, c.wants, d.Open())
				}
				if d.Result == nil {
					return
				}
				if ok := c.failed == ""; d.Result.OK != ok || ok != (d.State == provision.Available) || !strings.Contains(d.Result.Error, c.failed) {
					t.Errorf("ended in %q: %+v", d.State, d.Result)
				}
			})
		})
	}
}

// Requests name a step twice, with other arguments each time; a successor tells them apart.
func TestFixedListKeepsTheArgumentsOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, clean: []driver.Step{slowly("a", time.Minute, &log)}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		var asked []work.Step
		for _, how := range []string{"1", "2", "3"} {
			asked = append(asked, work.Step{Interface: "deploy", Step: "a", Args: map[string]any{"how": how}})
		}
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: asked})
		time.Sleep(90 * time.Second)
		kill()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		defer kill()
		time.Sleep(10 * time.Minute)
		if d := s.Work(nodeA).Doc; strings.Join(log, ",") != "a1,a2,a3" || d.Open() || !d.Result.OK {
			t.Errorf("ran %v, result %+v", log, d.Result)
		}
	})
}

// What ran under a rackd that kept no list is gone on with where it stands.
func TestWorkOfBeforeListsWereKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, clean: []driver.Step{slowly("a", 0, &log), slowly("b", time.Minute, &log)}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "a"}, {Interface: "deploy", Step: "b"}}})
		time.Sleep(30 * time.Second)
		kill()
		s.mu.Lock()
		if s.works[nodeA].Doc.Checkpoint.Plan == nil {
			t.Error("the checkpoint has no list")
		}
		s.works[nodeA].Doc.Checkpoint.Plan = nil
		s.mu.Unlock()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		defer kill()
		time.Sleep(10 * time.Minute)
		if d := s.Work(nodeA).Doc; !slices.Equal(log, []string{"a", "b"}) || d.Open() || !d.Result.OK {
			t.Errorf("ran %v, result %+v", log, d.Result)
		}
	})
}

// With the node's interfaces changed in the middle of a flow, its steps may be gone.
func TestTheListOutlivesTheNodesFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		s0 := slowly("erase", time.Minute, &log)
		s0.Priority, s0.In = 10, driver.InClean
		m := &machine{power: driver.PowerOff, clean: []driver.Step{s0}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Provide, provision.Cleaning, work.Args{})
		time.Sleep(30 * time.Second)
		kill()
		s.put(func() *node.Document { n := *s.Node(nodeA); n.AutomatedClean = new(bool); return &n }())
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		defer kill()
		time.Sleep(10 * time.Minute)
		if d := s.Work(nodeA).Doc; len(log) != 1 || d.State != provision.Available {
			t.Errorf("ran %v, ended in %q", log, d.State)
		}
	})
}
