package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/operators"
	"github.com/ironyard/ironyard/e2e/faults/witness"
	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// sound is the evidence of one deploy that went well.
func sound() *Evidence {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	events := []work.Event{
		{ID: "w/1/1", Kind: work.StateChanged, State: provision.Deploying, Target: provision.Active, Epoch: 1, Seq: 1},
		{ID: "w/1/2", Kind: work.PowerObserved, Power: "power on", Epoch: 1, Seq: 2},
		{ID: "w/1/3", Kind: work.WorkEnded, State: provision.Active, Epoch: 1, Seq: 3},
	}
	for i := range events {
		e := &events[i]
		e.Node, e.Group, e.Rackd, e.Work, e.Generation, e.Time = "n", "g", "r-1", "w", 3, at.Add(time.Duration(i)*time.Second)
	}
	m := control.Machine{Name: "name", Disk: disk.Image, Image: "sum"}
	m.On, m.State = true, machine.Instance
	doc := func(owner string, epoch uint64) work.Document {
		return work.Document{ID: "w", Node: "n", Owner: owner, Epoch: epoch}
	}
	return &Evidence{
		Requests: []*operators.Request{{Node: "n", What: "active", Status: 202, ID: "req-1"}},
		Nodes: []Node{{UUID: "n", Name: "name", Group: "g", Generation: 3, Observed: 3, State: provision.Active, ObservedState: provision.Active,
			Epoch: 1, Power: "power on", Image: "sum", MACs: []string{}}},
		Works: []Work{{ID: "w", Node: "n", RequestID: "req-1", State: ended, Generation: 3, Verb: work.Deploy, Ended: at}},
		History: []Entry{{Node: "n", Work: "w", Text: "active accepted"}, {Node: "n", Work: "w", Conductor: "r-1", At: events[0].Time},
			{Node: "n", Work: "w", Conductor: "r-1", At: events[2].Time}},
		Sites: []Site{{Name: "s", Events: events, Nodes: map[string]node.Document{"g.n": {UUID: "n", Name: "name", Group: "g", Generation: 3, State: provision.Active}},
			Expected: map[string]bus.Group{"g": {Name: "g"}}, Machines: []control.Machine{m}}},
		Sights: []witness.Sight{{Node: "n", Doc: doc("r-1", 1)}, {Node: "n", Doc: doc("", 1)}, {Node: "n", Doc: doc("r-2", 2)}},
	}
}

func TestSoundEvidence(t *testing.T) {
	if found := Judge(sound()); len(found) > 0 {
		t.Errorf("blamed: %q", found)
	}
}

// The end of what was asked of a machine beside the flow is a line, too.
func TestErrand(t *testing.T) {
	e := sound()
	errand := &e.Sites[0].Events[1]
	errand.Kind, errand.State, errand.Target = work.ErrandEnded, provision.DeployWait, provision.Active
	if found := Judge(e); len(found) != 1 || !strings.Contains(found[0], "line 2 of history") && !strings.Contains(found[0], "lacks") {
		t.Errorf("without its line: blamed %q", found)
	}
	e.History = slices.Insert(e.History, 2, Entry{Node: "n", Work: "w", Conductor: "r-1", At: errand.Time})
	if found := Judge(e); len(found) > 0 {
		t.Errorf("with its line: blamed %q", found)
	}
}

// A machine is switched while its flow waits: the request begins work that goes on with the flow.
func TestRequestThatGoesOnWithAFlow(t *testing.T) {
	e := sound()
	e.Requests[0].What = "power off"
	before := e.Works[0]
	before.ID, before.RequestID, before.Generation, before.State = "v", "req-0", e.Works[0].Generation-1, superseded
	e.Works = slices.Insert(e.Works, 0, before)
	if found := strings.Join(Judge(e), "\n"); strings.Contains(found, "began work") {
		t.Errorf("blamed: %s", found)
	}
	e.Works[0].Verb = work.Clean
	if found := strings.Join(Judge(e), "\n"); !strings.Contains(found, "began work w, a deploy") {
		t.Errorf("work that goes on with another's flow was not found; blamed is %q", found)
	}
}

// Who asks for a machine to be switched off while its deploy waits, and is heard when that is over, finds the node active
// and the machine off.
func TestSwitchedOffAfterItsDeploy(t *testing.T) {
	switchedOff := func() *Evidence {
		e := sound()
		e.Requests[0].What = "power off"
		before := e.Works[0]
		before.ID, before.RequestID, before.Generation, before.State = "v", "req-0", e.Works[0].Generation-1, superseded
		e.Works = slices.Insert(e.Works, 0, before)
		off := e.Sites[0].Events[1]
		off.ID, off.Epoch, off.Seq, off.Power, off.Time = "", 0, 0, "power off", off.Time.Add(time.Minute)
		off.Work, off.Generation = "", 0
		e.Sites[0].Events = append(e.Sites[0].Events, off)
		e.Nodes[0].Power = "power off"
		e.Sites[0].Machines[0].On, e.Sites[0].Machines[0].State = false, machine.Off
		return e
	}
	if found := strings.Join(Judge(switchedOff()), "\n"); strings.Contains(found, "instance") {
		t.Errorf("blamed: %s", found)
	}
	for name, spoil := range map[string]func(*Evidence){
		"somebody asked for a reboot": func(e *Evidence) { e.Requests[0].What = "power rebooting" },
		"it hangs":                    func(e *Evidence) { e.Sites[0].Machines[0].State = machine.Stuck },
		"of another node":             func(e *Evidence) { e.Requests[0].Node = "m" },
		"it is the deploy":            func(e *Evidence) { e.Works = e.Works[1:] },
	} {
		e := switchedOff()
		spoil(e)
		if found := strings.Join(Judge(e), "\n"); !strings.Contains(found, "does not run the instance") {
			t.Errorf("%s: not found; blamed is %q", name, found)
		}
	}
}

// A report that comes too late, and is dropped by its place, says nothing of a machine's power.
func TestLatePower(t *testing.T) {
	e := sound()
	late := e.Sites[0].Events[0]
	late.ID, late.State, late.Power = "w/0/9", provision.DeployWait, "power off"
	late.Epoch, late.Seq = 0, 9
	e.Sites[0].Events = append(e.Sites[0].Events, late)
	if found := Judge(e); len(found) > 0 {
		t.Errorf("blamed: %q", found)
	}
}

// A version that nobody saw when it was new, and that comes after newer ones from a server
// that catches up, is nobody's fault; one that was written after them is.
func TestLateSight(t *testing.T) {
	written := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := sound()
	for i := range e.Sights {
		e.Sights[i].Written, e.Sights[i].Revision = written.Add(time.Duration(i)*time.Second), uint64(10*i+1)
	}
	late := e.Sights[0]
	late.Revision, late.Written = 5, written.Add(time.Millisecond)
	e.Sights = append(e.Sights, late)
	if found := Judge(e); len(found) > 0 {
		t.Errorf("blamed: %q", found)
	}
	e.Sights[3].Written = written.Add(time.Hour)
	if found := strings.Join(Judge(e), "\n"); !strings.Contains(found, "went back from epoch 2") {
		t.Errorf("an old epoch written anew was not found; blamed is %q", found)
	}
}

// Each way of going wrong is found, and by its name.
func TestEachViolationIsFound(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(*Evidence)
	}{
		{"began work w, a deploy", func(e *Evidence) { e.Requests[0].What = "power off" }},
		{"was answered 500", func(e *Evidence) { e.Requests[0].Status = 500 }},
		{"was accepted with 202 and no work was recorded", func(e *Evidence) { e.Works[0].RequestID = "req-2" }},
		{"was refused with 409 and yet began work", func(e *Evidence) { e.Requests[0].Status = 409 }},
		{"began 2 pieces of work", func(e *Evidence) { w := e.Works[0]; w.ID = "v"; e.Works = append(e.Works, w) }},
		{"exists although its deletion was accepted", func(e *Evidence) { e.Requests[0].What = "delete" }},
		{"is still open", func(e *Evidence) { e.Works[0].State = open }},
		{"was superseded by nothing", func(e *Evidence) { e.Works[0].State = superseded }},
		{"does not rest", func(e *Evidence) { e.Nodes[0].State = provision.DeployWait }},
		{"although its deploy (work w) ended without an error", func(e *Evidence) { e.Nodes[0].State = provision.DeployFail }},
		{"does not say why", func(e *Evidence) { e.Works[0].Error, e.Nodes[0].State = "broken", provision.DeployFail }},
		{"are left in the outbox", func(e *Evidence) { e.Outbox = 1 }},
		{"no rack reported anything of it", func(e *Evidence) { e.Sites[0].Events = nil }},
		{"no rack reported its end", func(e *Evidence) { e.Sites[0].Events = e.Sites[0].Events[:2] }},
		{"history lacks event", func(e *Evidence) { e.History = e.History[:2] }},
		{"line 1 of history", func(e *Evidence) { e.History[1], e.History[2] = e.History[2], e.History[1] }},
		{"history has 1 lines that no event stands for", func(e *Evidence) { e.History = append(e.History, e.History[2]) }},
		{"observed is", func(e *Evidence) { e.Nodes[0].ObservedState = provision.Deploying }},
		{"reported \"power on\" last", func(e *Evidence) { e.Nodes[0].Power = "power off" }},
		{"has no document at site s", func(e *Evidence) { delete(e.Sites[0].Nodes, "g.n") }},
		{"of no node of its own", func(e *Evidence) { e.Sites[0].Nodes["g.m"] = node.Document{} }},
		{"the row is", func(e *Evidence) { d := e.Sites[0].Nodes["g.n"]; d.Maintenance = true; e.Sites[0].Nodes["g.n"] = d }},
		{"has work left", func(e *Evidence) { e.Sites[0].Work = map[string]work.Document{"g.n": {ID: "w"}} }},
		{"which is not its own", func(e *Evidence) { e.Sites[0].Events[0].Group = "other" }},
		{"configured is", func(e *Evidence) { e.Sites[0].Expected["g"] = bus.Group{Failover: []string{"h"}} }},
		{"went back from epoch 2", func(e *Evidence) { e.Sights[2], e.Sights[0] = e.Sights[0], e.Sights[2] }},
		{"within epoch 1", func(e *Evidence) { e.Sights[2].Doc.Epoch = 1 }},
		{"its disk holds image other", func(e *Evidence) { e.Sites[0].Machines[0].Image = "other" }},
		{"its disk holds torn", func(e *Evidence) { e.Sites[0].Machines[0].Disk = disk.Torn }},
		{"does not run the instance", func(e *Evidence) { e.Sites[0].Machines[0].State = machine.Stuck }},
		{"the machine is", func(e *Evidence) { e.Sites[0].Machines[0].On = false }},
		{"rule zombie", func(e *Evidence) { e.Sites[0].Audit = []audit.Finding{{Machine: "name", Rule: audit.Zombie}} }},
	} {
		e := sound()
		c.spoil(e)
		if found := strings.Join(Judge(e), "\n"); !strings.Contains(found, c.want) {
			t.Errorf("%q was not found; blamed is %q", c.want, found)
		}
	}
}
