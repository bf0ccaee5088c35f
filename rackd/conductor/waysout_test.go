package conductor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// wayOut is a flow in its ramdisk or, of a live instance, in the boot of that, and the step in which it is then.
type wayOut struct {
	verb        work.Verb
	entry, from provision.State
	args        work.Args
	step        string
	inStep      time.Duration // when it certainly runs that step
	live        live
}

var inTheRamdisk = []wayOut{
	{work.Deploy, provision.Deploying, provision.Available, work.Args{}, "write_image", 150 * time.Second, ""},
	{work.Rebuild, provision.Deploying, provision.Active, work.Args{}, "write_image", 150 * time.Second, ""},
	{work.Provide, provision.Cleaning, provision.Manageable, work.Args{}, "erase", 90 * time.Second, ""},
	{work.Clean, provision.Cleaning, provision.Manageable, named("erase"), "erase", 90 * time.Second, ""},
	{work.Delete, provision.Deleting, provision.Active, work.Args{}, "erase", 150 * time.Second, ""},
	{work.Inspect, provision.Inspecting, provision.Manageable, work.Args{}, "boot_ramdisk", 30 * time.Second, ""},
	{work.Rescue, provision.Rescuing, provision.Active, work.Args{}, "rescue", 30 * time.Second, ""},
	{work.Rescue, provision.Rescuing, provision.Active, work.Args{}, "rescue", 30 * time.Second, onVolume},
	{work.Service, provision.Servicing, provision.Active, named("tool"), "tool", 90 * time.Second, ""},
	{work.Service, provision.Servicing, provision.Active, named("tool"), "tool", 90 * time.Second, onVolume},
}

// inTheInstance are the deploys whose instance is to boot, or is about to.
var inTheInstance = []wayOut{
	{work.Deploy, provision.Deploying, provision.Available, work.Args{}, "boot_instance", 210 * time.Second, ""},
	{work.Deploy, provision.Deploying, provision.Available, work.Args{}, "deploy", 30 * time.Second, onCD},
	{work.Deploy, provision.Deploying, provision.Available, work.Args{}, "prepare_instance_boot", 90 * time.Second, onVolume},
	{work.Deploy, provision.Deploying, provision.Available, work.Args{}, "boot_instance", 150 * time.Second, onVolume},
	{work.Rebuild, provision.Deploying, provision.Active, work.Args{}, "boot_instance", 210 * time.Second, ""},
	{work.Rebuild, provision.Deploying, provision.Active, work.Args{}, "deploy", 30 * time.Second, onCD},
	{work.Rebuild, provision.Deploying, provision.Active, work.Args{}, "boot_instance", 150 * time.Second, onVolume},
}

// ways are how a flow ends badly.
var ways = map[string]func(w wayOut, e *ending){
	"failure":                        func(w wayOut, e *ending) { e.fails = w.step },
	"deadline":                       func(w wayOut, e *ending) { e.hangs = w.step },
	"takeover, then failure":         func(w wayOut, e *ending) { e.fails, e.dies = w.step, w.inStep },
	"abort":                          func(w wayOut, e *ending) { e.abort = w.inStep },
	"abort, shown when it has ended": func(w wayOut, e *ending) { e.abort, e.later = w.inStep, true },
	"abort of a step that fails":     func(w wayOut, e *ending) { e.abort, e.uncut, e.fails = w.inStep, w.step, w.step },
	"takeover, then abort":           func(w wayOut, e *ending) { e.dies, e.abort = w.inStep, 10*time.Second },
	"takeover from a program of before the note, then failure": func(w wayOut, e *ending) { e.fails, e.dies, e.before = w.step, w.inStep, true },
	"takeover from a program of before the note, then abort":   func(w wayOut, e *ending) { e.dies, e.abort, e.before = w.inStep, 10*time.Second, true },
}

// deaths are the places of an end at which its rackd dies.
var deaths = []string{"conductor.failing", "conductor.failed", "conductor.off", "conductor.cleaned", "conductor.left", "conductor.finish", "conductor.result"}

// bmcs are what may be wrong with a BMC at the end of a flow.
var bmcs = map[string]faults{
	"sound": {}, "refuses to switch off twice": {staysOn: 2}, "refuses to eject twice": {keeps: 2}, "loses an answer": {lost: true},
	"refuses to switch off": {staysOn: always}, "refuses to eject": {keeps: always},
}

// A flow that has booted the ramdisk, or made its instance boot, ends cleanly, by each boot interface, whatever its BMC does and whenever
// its rackd dies. The ramdisk's boot is taken back, its medium is out once the machine is off, and what could not be done is told. An
// instance that is not to be leaves no medium and no volume; the one that a rescue or a service was to spare keeps both.
func TestEveryWayOutIsClean(t *testing.T) {
	for i, w := range slices.Concat(inTheRamdisk, inTheInstance) {
		for name, way := range ways {
			for fault, f := range bmcs {
				for _, network := range []bool{false, true} {
					for _, at := range append([]string{""}, deaths...) {
						e := ending{flow: string(w.verb), verb: w.verb, entry: w.entry, from: w.from, args: w.args, faults: f, network: network, live: w.live, diesAt: at,
							end: fmt.Sprintf("%s of %s, %s instance, BMC %s, network boot %t, death at %q", name, w.step, cmp.Or(w.live, "an image's"), fault, network, at)}
						if w.from == provision.Active {
							e.starts = anInstance
						}
						if way(w, &e); !e.comes() || !e.comesBy(at) {
							continue
						}
						if w.step == "boot_instance" && w.live == "" && (f.staysOn > 0 || f.lost) {
							continue // the step itself fails, before the instance is made to boot
						}
						synctest.Test(t, func(t *testing.T) {
							if m, s := perform(t, e); i >= len(inTheRamdisk) {
								e.judgeInstance(t, m, s)
							} else {
								e.judge(t, m, s)
							}
						})
					}
				}
			}
		}
	}
}

// comes reports whether there is such an end, and a run of it tells more than others do.
func (e ending) comes() bool {
	switch {
	case e.diesAt != "" && (e.dies > 0 || e.faults != faults{}):
		return false
	case e.uncut != "" && (e.verb == work.Inspect || e.verb == work.Rescue):
		return false // an abort ends these wherever they wait
	case e.later && flow.WaitsIn[e.verb] != provision.CleanWait && flow.WaitsIn[e.verb] != provision.DeployWait && flow.WaitsIn[e.verb] != provision.ServiceWait:
		return false // central shows these at once
	}
	return true
}

// comesBy reports whether the end passes a failpoint: an abort's last step is written as others are.
func (e ending) comesBy(at string) bool {
	service := e.verb == work.Service && e.abort > 0 && e.fails == "" // its instance is started, by the steps of the deploy interface
	aborts := e.abort > 0 && e.fails == "" && !e.later
	switch at {
	case "conductor.off":
		return !service && !(e.verb == work.Service && e.network) // left on, to be looked at
	case "conductor.cleaned":
		return !service && (e.faults.staysOn < always || e.network)
	case "conductor.failing", "conductor.failed", "conductor.left":
		return !aborts
	}
	return true
}

func (e ending) judge(t *testing.T, m *stage, s *shelf) {
	t.Helper()
	d := s.Work(nodeA).Doc
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, %s: %s; the machine runs %q, gets %q, medium %q, state %q: %+v", e.flow, e.end, fmt.Sprintf(format, args...), m.runs, m.gets, m.medium, d.State, d.Result)
	}
	brokenOff, brokenDrive := e.faults.staysOn == always, e.faults.keeps == always
	endsService := e.verb == work.Service && e.abort > 0 && e.fails == ""
	instance := endsService && e.faults.staysOn == 0 && !e.faults.lost // which its steps here do not get over
	stays := e.verb == work.Service && e.network && !instance          // to be looked at
	switch {
	case instance && (m.runs != anInstance || d.State != provision.Active):
		bad("the instance does not run")
	case instance, endsService && e.network: // it is off as far as the steps came that were to start the instance
	case brokenOff || stays:
		if m.runs != aRamdisk {
			bad("it was switched off all the same")
		}
	case m.runs != "":
		bad("it is on")
	}
	broken := brokenOff && !stays || brokenDrive && !instance || endsService && !instance && e.later
	medium := map[bool]string{true: "in", false: "out"}[brokenOff || brokenDrive && !instance]
	if e.network {
		medium = ""
	}
	if m.medium != medium {
		bad("want the medium %q", medium)
	}
	if !instance && !(brokenOff && !e.network) && m.cleaned == 0 {
		bad("the ramdisk's boot was not taken back")
	}
	if said := strings.Contains(d.Result.Error, "could not be"); said != broken || toldOf(s, "not cleaned up") != broken {
		bad("want to be told of what was not done: %t", broken)
	}
	if e.abort > 0 && !strings.Contains(d.Result.Error, "abort") && e.fails == "" {
		bad("the abort is not told")
	}
	if want := e.instanceStays(); m.told == "in" != want {
		bad("its instance is %q in its firmware or drive, and stays: %t", m.told, want)
	}
	if failed := []provision.State{provision.DeployFail, provision.CleanFail, provision.InspectFail, provision.RescueFail, provision.ServiceFail}; !instance && !slices.Contains(failed, d.State) {
		bad("the state is none of failure")
	}
	if d.Checkpoint.Leaving != nil {
		bad("its end is still under way")
	}
}

// instanceStays reports whether the machine is told to boot its instance after a flow that has failed in its ramdisk: one
// that was to spare the instance, and one whose machine may run from the ramdisk's medium.
func (e ending) instanceStays() bool {
	return e.verb == work.Rescue || e.verb == work.Service || e.verb == work.Rebuild && e.faults.staysOn == always && !e.network
}

// judgeInstance is judge of a deploy that has made its instance boot.
func (e ending) judgeInstance(t *testing.T, m *stage, s *shelf) {
	t.Helper()
	d := s.Work(nodeA).Doc
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, %s: %s; the machine runs %q, gets %q, is told %q, state %q: %+v", e.flow, e.end, fmt.Sprintf(format, args...), m.runs, m.gets, m.told, d.State, d.Result)
	}
	staysOn := e.faults.staysOn == always && m.runs != "" // one that was off needs no order
	kept := staysOn && e.live == onCD && !e.network       // it may run from it
	broken := staysOn || e.faults.keeps == always
	switch {
	case d.State != provision.DeployFail || d.Checkpoint.Leaving != nil:
		bad("it has not ended as a deploy that failed")
	case m.runs != "" && (!staysOn || m.runs != anInstance):
		bad("it is on")
	case (m.told == "in") != (kept || e.faults.keeps == always):
		bad("its instance's medium or volume is %q", m.told)
	case m.medium == "in":
		bad("the ramdisk's medium is in")
	case toldOf(s, "not cleaned up") != broken || strings.Contains(d.Result.Error, "could not be") != broken:
		bad("want to be told of what was not done: %t", broken)
	case e.abort > 0 && e.fails == "" && !strings.Contains(d.Result.Error, "abort"):
		bad("the abort is not told")
	}
}

// A rackd that cannot reach the machine of a flow that it has taken over ends the flow and tells what it did not do.
func TestAnEndThatCannotReachTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, deploy: []driver.Step{inRamdisk("flash", true, time.Hour, &log)}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(time.Minute)
		kill()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, func(c *Config) {
			of := []driver.Named{{Name: "m", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "other", Interfaces: map[string][]driver.Named{"power": of, "management": of, "boot": of, "deploy": of}})
			if err != nil {
				t.Fatal(err)
			}
			c.Hardware = reg
		})
		defer kill()
		time.Sleep(time.Minute)
		d := s.Work(nodeA).Doc
		if d.Open() || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "was not taken out of the ramdisk") || !toldOf(s, "not cleaned up") || m.power != driver.PowerOn {
			t.Errorf("in %q, the machine is %q: %+v", d.State, m.power, d.Result)
		}
	})
}

// The owner of a flow that had failed dies while it leaves the machine, and an operator aborts the flow: its failed step is not run again.
func TestAnAbortOfAFlowThatFails(t *testing.T) {
	for _, uncut := range []string{"", "erase"} {
		synctest.Test(t, func(t *testing.T) {
			e := ending{flow: "clean", end: "failure, then abort", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, args: named("erase"), fails: "erase",
				uncut: uncut, faults: faults{staysOn: 1}, abort: 120 * time.Second}
			m, s := perform(t, e)
			if d := s.Work(nodeA).Doc; d.Verb != work.Abort || !d.Result.OK || m.runs != "" || m.medium != "out" || !strings.Contains(d.Result.Error, "aborted") {
				t.Errorf("%s in %q, %+v; the machine runs %q, medium %q", d.Verb, d.State, d.Result, m.runs, m.medium)
			}
		})
	}
}

// Once it is written that a flow fails it does, also where the step would succeed if the next owner ran it again: its machine may be off.
func TestAFailureIsNotTakenBack(t *testing.T) {
	for _, at := range []string{"conductor.failed", "conductor.off", "conductor.cleaned", "conductor.left", "conductor.finish"} {
		synctest.Test(t, func(t *testing.T) {
			e := ending{flow: "deploy", end: "failure", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "write_image", once: true, diesAt: at}
			m, s := perform(t, e)
			if d := s.Work(nodeA).Doc; d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "it failed") || m.runs != "" || m.medium != "out" {
				t.Errorf("death at %s: in %q, %+v; the machine runs %q, medium %q", at, d.State, d.Result, m.runs, m.medium)
			}
		})
	}
}

// In maintenance a person may be at the machine: what a deploy that has failed has told it of its instance stays until that ends.
func TestAnInstanceIsTakenBackAfterTheMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &stage{machine: &machine{power: driver.PowerOff}, live: onVolume, fails: "boot_instance"}
		reg := m.hardware(t, false)
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, func(c *Config) { c.Hardware = reg })
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{From: provision.Available})
		time.Sleep(150 * time.Second)
		s.maintain(true, "", 10*time.Minute)
		if d := s.Work(nodeA).Doc; m.told != "in" || m.runs != anInstance || !d.Open() {
			t.Errorf("in maintenance it is told %q and runs %q; %q, %+v", m.told, m.runs, d.State, d.Result)
		}
		s.maintain(false, "", 10*time.Minute)
		if d := s.Work(nodeA).Doc; m.told != "out" || m.runs != "" || d.State != provision.DeployFail {
			t.Errorf("after it it is told %q and runs %q; %q, %+v", m.told, m.runs, d.State, d.Result)
		}
	})
}
