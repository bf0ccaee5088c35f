package ingest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// deploying is a node whose deploy, generation 3, nobody has reported on.
func deploying() *store.Node {
	n := &store.Node{UUID: "n", Generation: 2, ObservedGeneration: 2, ObservedEpoch: 9, ObservedSeq: 99,
		ProvisionState: provision.Available, ObservedState: provision.Available, ObservedError: "old"}
	n.Accept(provision.Deploying, provision.Active, time.Unix(100, 0))
	n.WorkID = "w"
	return n
}

func event(kind work.EventKind, epoch, seq uint64) *work.Event {
	return &work.Event{Kind: kind, Node: "n", Work: "w", Verb: work.Deploy, Generation: 3, Epoch: epoch, Seq: seq, Rackd: "r",
		Time: time.Unix(int64(1000+100*epoch+seq), 0)}
}

func TestOrderOfGenerationsEpochsAndNumbers(t *testing.T) {
	n, fx := deploying(), newEffects()
	other, older := event(work.PhaseEntered, 1, 1), event(work.PhaseEntered, 1, 1)
	other.Work, older.Generation = "another", 2
	for i, c := range []struct {
		e    *work.Event
		want dropped
	}{
		{other, closedWork},
		{older, oldGeneration},
		{event(work.PhaseEntered, 1, 1), applied}, // counts anew in a new generation
		{event(work.PhaseEntered, 1, 1), repeated},
		{event(work.PhaseEntered, 1, 3), applied}, // numbers may be left out
		{event(work.PhaseEntered, 1, 2), repeated},
		{event(work.PhaseEntered, 2, 1), applied}, // a successor counts anew
		{event(work.PhaseEntered, 1, 4), oldEpoch},
	} {
		if got := apply(n, c.e, fx); got != c.want {
			t.Errorf("event %d: got %q, want %q", i, got, c.want)
		}
	}
	if n.ObservedState != provision.Deploying || n.ObservedTarget != provision.Active || n.ObservedError != "" {
		t.Errorf("a phase moved the node to %q → %q, error %q", n.ObservedState, n.ObservedTarget, n.ObservedError)
	}
	if len(fx.history) != 3 {
		t.Errorf("%d lines of history, want 3", len(fx.history))
	}
}

func TestEndOfWork(t *testing.T) {
	n, fx := deploying(), newEffects()
	n.PowerGeneration, n.PowerTarget, n.TargetPowerState = 3, "power on", "power on"
	e := event(work.WorkEnded, 1, 1)
	e.State, e.Target, e.Error = provision.DeployFail, provision.Active, "checksum differs"
	e.SetMaintenance, e.Fault = true, "clean failure"
	if why := apply(n, e, fx); why != applied {
		t.Fatal(why)
	}
	if n.ObservedState != provision.DeployFail || n.ObservedError != "checksum differs" || n.PowerObservedGeneration != 3 || n.TargetPowerState != "" || n.FaultNumber != 1 {
		t.Errorf("node %+v", n)
	}
	if len(fx.ended) != 1 || fx.ended[0].ID != "w" || fx.ended[0].Error != "checksum differs" || !fx.dirty["n"] {
		t.Errorf("effects %+v", fx)
	}
	if h := fx.history[0]; h.Severity != "ERROR" || h.EventType != "deploying" || h.State != provision.Deploying || h.Target != provision.Active {
		t.Errorf("history %+v", fx.history[0])
	}
	if why := apply(n, event(work.PhaseEntered, 1, 2), fx); why != closedWork {
		t.Errorf("after the end: %q, want %q", why, closedWork)
	}
}

// Work that waits may tell how it has left the machine meanwhile.
func TestPowerWhileWorkWaits(t *testing.T) {
	n := deploying()
	n.PowerState = "power off"
	e := event(work.StateChanged, 1, 1)
	e.State, e.Target, e.Power = provision.DeployWait, provision.Active, "power on"
	if why := apply(n, e, newEffects()); why != applied || n.PowerState != "power on" {
		t.Errorf("%q, power state %q", why, n.PowerState)
	}
	e = event(work.StateChanged, 1, 2)
	e.State, e.Target = provision.Deploying, provision.Active
	if why := apply(n, e, newEffects()); why != applied || n.PowerState != "power on" {
		t.Errorf("an event that tells no power state: %q, power state %q", why, n.PowerState)
	}
}

// An event also tells of the phases before it, and the end of work in which power state
// it leaves the machine.
func TestWhatAnEventTellsBesides(t *testing.T) {
	n, fx := deploying(), newEffects()
	e := event(work.WorkEnded, 1, 4)
	e.State, e.Power = provision.Active, "power on"
	e.Before = []work.Line{{Time: time.Unix(900, 0), Phase: "write", Detail: "40 MB", Seconds: 2}, {Time: time.Unix(901, 0), Phase: "reboot"}}
	if why := apply(n, e, fx); why != applied {
		t.Fatal(why)
	}
	if n.PowerState != "power on" || !n.PowerAt.Equal(e.Time) {
		t.Errorf("power %q at %s", n.PowerState, n.PowerAt)
	}
	if len(fx.history) != 3 {
		t.Fatalf("%d lines of history, want 3", len(fx.history))
	}
	if h := fx.history[0]; h.Event != "write: 40 MB" || h.EventType != "phase" || h.Phase != "write" || h.Seconds != 2 || h.State != "" ||
		!h.CreatedAt.Equal(time.Unix(900, 0)) || h.Conductor != "r" || h.Work != "w" {
		t.Errorf("first line %+v", h)
	}
	if h := fx.history[2]; h.Phase != "" || h.State != provision.Active {
		t.Errorf("last line %+v", h)
	}
	phase := event(work.PhaseEntered, 2, 1)
	phase.Phase, phase.Before = "agent", e.Before
	other, fx2 := deploying(), newEffects()
	if why := apply(other, phase, fx2); why != applied || len(fx2.history) != 3 || fx2.history[2].Event != "agent" {
		t.Errorf("%q, history %+v", why, fx2.history)
	}
}

func TestPowerOutsideWork(t *testing.T) {
	n, fx := deploying(), newEffects()
	on := &work.Event{Kind: work.PowerObserved, Node: "n", Power: "power on", Time: time.Unix(50, 0)}
	// The rackd's clock was put back meanwhile: what comes later in the stream is newer.
	off := &work.Event{Kind: work.PowerObserved, Node: "n", Power: "power off", Time: time.Unix(49, 0)}
	if apply(n, on, fx) != applied || n.PowerState != "power on" {
		t.Errorf("power %q", n.PowerState)
	}
	if apply(n, off, fx) != applied || n.PowerState != "power off" {
		t.Errorf("power %q after a report from a clock that was put back", n.PowerState)
	}
	if n.ObservedGeneration != 2 {
		t.Error("an observation outside of the work counts as a report of its generation")
	}
}

// A power fault puts the node into maintenance and ends by itself; an operator's word
// and other faults are not touched.
func TestPowerFaultComesAndGoes(t *testing.T) {
	at := int64(0)
	observed := func(change func(*work.Event)) *work.Event {
		at++
		e := &work.Event{Kind: work.PowerObserved, Node: "n", Power: "power on", Time: time.Unix(at, 0)}
		change(e)
		return e
	}
	fault := func(e *work.Event) {
		e.Power, e.SetMaintenance, e.Fault, e.Error = "error", true, "power failure", "BMC is silent"
	}
	over := func(e *work.Event) { e.Cleared = "power failure" }
	n, fx := deploying(), newEffects()
	n.FaultNumber, n.FaultAcked = 3, 3
	faulty := func() bool { return n.FaultNumber > n.FaultAcked } // as the database computes it
	for i, c := range []struct {
		what    func(*work.Event)
		fault   string
		history int
	}{
		{over, "", 0}, // there is none
		{fault, "power failure", 1},
		{over, "", 2},
		{over, "", 2},
		{fault, "power failure", 3},
		{func(*work.Event) { n.FaultAcked = n.FaultNumber }, "", 3}, // an operator acknowledges it
		{over, "", 3},
		{fault, "power failure", 4},
		{func(e *work.Event) { e.SetMaintenance, e.Fault = true, "clean failure" }, "clean failure", 5},
		{over, "clean failure", 5},
		{fault, "clean failure", 6}, // it is told, and takes the place of no other
		{over, "clean failure", 6},
	} {
		if why := apply(n, observed(c.what), fx); why != applied {
			t.Fatalf("event %d: %q", i, why)
		}
		got := n.ObservedFault
		if !faulty() {
			got = ""
		}
		if got != c.fault || len(fx.history) != c.history {
			t.Errorf("event %d: fault %q and %d lines of history, want %q and %d", i, got, len(fx.history), c.fault, c.history)
		}
	}
	if h := fx.history[0]; h.Severity != "ERROR" || h.EventType != "monitoring" || h.Event != "power failure: BMC is silent" {
		t.Errorf("history %+v", h)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"kind":"state","node":"n","work":"w","state":"active","time":"2026-01-01T00:00:00Z","generation":3,"epoch":1,"seq":1}`))
	f.Add([]byte(`{"kind":"power","node":"n","time":"2026-01-01T00:00:00Z","power":"power on"}`))
	f.Add([]byte(`{"kind":"inventory","internal":{"a":null},"inventory":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := parse("EVENTS.=.n", data)
		if err != nil {
			return
		}
		n := deploying()
		generation := n.Generation
		if apply(n, e, newEffects()) == applied && e.Work != "" && (e.Work != "w" || e.Generation != generation) {
			t.Errorf("event of work %q, generation %d was applied", e.Work, e.Generation)
		}
		if n.Generation != generation {
			t.Error("an event changed intent")
		}
	})
}

// A site is written to when its document shows what an event says: what a BMC reports of
// itself is central's alone, what its drivers keep is the rack's.
func TestSitesAreWrittenToWhenTheirDocumentsChange(t *testing.T) {
	health := "OK"
	for name, c := range map[string]struct {
		e    work.Event
		want bool
	}{
		"health":                 {work.Event{Kind: work.HardwareObserved, Hardware: &hardware.Observation{Health: &health}}, false},
		"what drivers keep":      {work.Event{Kind: work.HardwareObserved, Hardware: &hardware.Observation{Health: &health, Kept: []byte(`{}`)}}, true},
		"a RAID":                 {work.Event{Kind: work.HardwareObserved, Hardware: &hardware.Observation{RAID: map[string]any{}}}, true},
		"properties":             {work.Event{Kind: work.HardwareObserved, Hardware: &hardware.Observation{}, Properties: map[string]any{"cpus": 1}}, true},
		"a power state":          {work.Event{Kind: work.PowerObserved, Power: "power on"}, false},
		"a fault":                {work.Event{Kind: work.PowerObserved, Power: "error", Fault: "power failure", SetMaintenance: true}, true},
		"driver_internal_info":   {work.Event{Kind: work.HardwareObserved, Internal: map[string]json.RawMessage{"a": []byte("1")}}, true},
		"the end of an instance": {work.Event{Kind: work.PowerObserved, ClearInstance: true}, true},
	} {
		n, fx := deploying(), newEffects()
		c.e.Node = n.UUID
		if why := apply(n, &c.e, fx); why != applied || fx.dirty[n.UUID] != c.want {
			t.Errorf("%s: %q, written to the site: %v, want %v", name, why, fx.dirty[n.UUID], c.want)
		}
	}
}

// The disks of the last inspection are expected of a machine until its RAID changes; a RAID that is
// read again as it was changes nothing.
func TestDisksAreForgottenWithTheRAID(t *testing.T) {
	raid := func(level string) map[string]any {
		return map[string]any{"logical_disks": []any{map[string]any{"raid_level": level}}, "last_updated": level + time.Now().String()}
	}
	n := deploying()
	for _, c := range []struct {
		now  map[string]any
		left bool
	}{{map[string]any{}, true}, {raid("1"), false}, {raid("1"), true}, {raid("5"), false}, {map[string]any{}, false}} {
		if n.DriverInternalInfo == nil {
			n.DriverInternalInfo = map[string]any{}
		}
		n.DriverInternalInfo[node.DisksKey] = []any{"known"}
		if err := observe(t.Context(), nil, n, &hardware.Observation{RAID: c.now}); err != nil {
			t.Fatal(err)
		}
		if got := n.DriverInternalInfo[node.DisksKey] != nil; got != c.left {
			t.Errorf("RAID %v: the disks are known: %v, want %v", c.now, got, c.left)
		}
	}
}

// What was asked beside a flow that waits ends its power request and tells its failure; the
// state, its time and the step that waits stay.
func TestEndOfErrand(t *testing.T) {
	for _, c := range []struct {
		power, fails    string
		state, severity string
	}{{"power on", "", "power on", "INFO"}, {"power off", "stuck", "power off", "ERROR"}, {"", "", "power off", "INFO"}} {
		n, fx := deploying(), newEffects()
		n.ProvisionState, n.AcceptedState, n.PowerState = provision.DeployHold, provision.DeployHold, "power off"
		n.PowerGeneration, n.PowerTarget, n.TargetPowerState = 3, "power on", "power on"
		e := event(work.ErrandEnded, 1, 1)
		e.State, e.Target, e.Power, e.Error = provision.DeployHold, provision.Active, c.power, c.fails
		e.Step, e.StepInfo = "deploy.hold", json.RawMessage(`{"step":"hold"}`)
		since := n.ProvisionUpdatedAt
		if why := apply(n, e, fx); why != applied {
			t.Fatalf("dropped: %s", why)
		}
		if n.WorkID != "w" || n.TargetPowerState != "" || n.PowerObservedGeneration != 3 || n.PowerState != c.state || n.LastError != c.fails {
			t.Errorf("%+v: work %q, target %q, power %q, error %q", c, n.WorkID, n.TargetPowerState, n.PowerState, n.LastError)
		}
		if n.ProvisionState != provision.DeployHold || !n.ProvisionUpdatedAt.Equal(since) || n.ObservedStepInfo != `{"step":"hold"}` {
			t.Errorf("%+v: state %q since %s, step %s", c, n.ProvisionState, n.ProvisionUpdatedAt, n.ObservedStepInfo)
		}
		if len(fx.ended) != 0 || len(fx.history) != 1 || fx.history[0].Severity != c.severity {
			t.Errorf("%+v: ended %v, history %+v", c, fx.ended, fx.history)
		}
	}
}

// What a machine says may hold NUL characters, which not every database takes.
func TestEventsHoldNoNUL(t *testing.T) {
	e, err := parse("EVENTS.=.n", []byte(`{"kind":"work_ended","node":"n","work":"w","state":"manageable","time":"2026-01-02T12:00:00Z","error":"a\u0000\\u0000\\\u0000b"}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\ufffd\\u0000\\\ufffdb"; e.Error != want {
		t.Errorf("%q, want %q", e.Error, want)
	}
}
