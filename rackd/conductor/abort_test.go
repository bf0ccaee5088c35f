package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// abort puts an abort on the shelf that takes the place of what is there, as central and its
// relay do for one that they show to have taken effect.
func (s *shelf) abort(id string, entry provision.State) string {
	s.mu.Lock()
	n, old := *s.nodes[id], s.works[id].Doc
	n.Generation++
	n.State = entry
	s.nodes[id] = &n
	d := work.Document{ID: fmt.Sprintf("work-%d", n.Generation), Node: id, Generation: n.Generation, Verb: work.Abort, Args: old.Args, Requested: time.Now(),
		Entry: entry, EntryTarget: provision.TargetOf(entry, provision.EventAbort, old.Target), Owner: old.Owner, Epoch: old.Epoch + 1}
	d.Args.Continues, d.Args.Aborts, d.Args.Supersedes = old.Root(), old.Verb, old.ID
	if old.Checkpoint.Errand.Told { // else the abort takes it over
		d.Args.PowerTarget, d.Args.Change = "", nil
	}
	d.Inherit(&old)
	d.Sign(testKey)
	s.rev++
	s.works[id] = &view.Work{Doc: d, Revision: s.rev}
	s.mu.Unlock()
	s.tell(id)
	return d.ID
}

// inRamdisk is a step that boots the ramdisk and then waits for d.
func inRamdisk(name string, abortable bool, d time.Duration, log *[]string) driver.Step {
	s := slowly(name, d, log)
	wait := s.Run
	s.Abortable, s.Priority = abortable, 50
	s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		if t.Facts[driver.FactBooted] == "" {
			t.Facts[driver.FactBoot], t.Facts[driver.FactBooted] = driver.BootRamdisk, "yes"
			if err := t.Record.SaveHandle(ctx, "booted"); err != nil {
				return driver.Outcome{}, err
			}
			if err := t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOn); err != nil {
				return driver.Outcome{}, err
			}
		}
		return wait(ctx, t)
	}
	return s
}

// The rack decides by the checkpoint what an abort may cut short, whatever central believed.
// What must not be cut is run to its end, by a successor too; the machine is off then.
func TestAnAbortLeavesAStepItsTime(t *testing.T) {
	for _, verb := range []work.Verb{work.Clean, work.Deploy, work.Service} {
		for name, c := range map[string]struct {
			abortable, later, dies bool
			after                  time.Duration // the end, measured from the abort
		}{
			"cut short":                               {abortable: true},
			"cut short, central waits for its end":    {abortable: true, later: true},
			"to its end, central shows it as aborted": {after: 9 * time.Minute},
			"to its end":                              {later: true, after: 9 * time.Minute},
			"to its end by a successor":               {dies: true, after: 9 * time.Minute},
		} {
			t.Run(string(verb)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log []string
					m := &machine{power: driver.PowerOff}
					steps := []driver.Step{inRamdisk("flash", c.abortable, 10*time.Minute, &log), did("next", &log)}
					m.clean, m.deploy = steps, steps
					s := newShelf()
					oneNode(s)
					owner := owned("a")
					_, _, kill := conductorOn(t, s, "a", owner, m, nil)
					asked := []work.Step{{Interface: "deploy", Step: "flash"}, {Interface: "deploy", Step: "next"}}
					if verb == work.Deploy {
						asked, m.clean = nil, nil
					}
					entry := map[work.Verb]provision.State{work.Clean: provision.Cleaning, work.Deploy: provision.Deploying, work.Service: provision.Servicing}[verb]
					failed, _ := provision.Next(entry, provision.EventFail)
					s.request(nodeA, verb, entry, work.Args{Steps: asked})
					time.Sleep(time.Minute)
					synctest.Wait()
					began := time.Now()
					if c.later {
						s.goOn(nodeA, flow.WaitsIn[verb], true)
					} else {
						s.abort(nodeA, failed.To)
					}
					if c.dies {
						time.Sleep(time.Minute)
						synctest.Wait()
						kill()
						owner.Store("b")
						_, _, kill = conductorOn(t, s, "b", owner, m, nil)
					}
					defer kill()
					time.Sleep(30 * time.Minute)
					synctest.Wait()
					d := s.Work(nodeA).Doc
					if d.Open() {
						t.Fatalf("it goes on at %s", d.Checkpoint.Step)
					}
					if took := d.Result.At.Sub(began); took < c.after || took > c.after+time.Minute || (len(log) == 1) != (c.after > 0) {
						t.Errorf("ended %s after the abort, steps %v", took, log)
					}
					want, power := failed.To, driver.PowerOff
					if verb == work.Service {
						want, power = provision.Active, driver.PowerOn
					}
					if d.State != want || !strings.Contains(d.Result.Error, "abort") || m.power != power || d.Result.SetMaintenance {
						t.Errorf("ended in %q, the machine is %q after %v: %+v", d.State, m.power, m.writes, d.Result)
					}
				})
			})
		}
	}
}

// An abort leaves a machine alone that the flow has not booted; one that must not be switched
// off is reset, so that its agent does not go on.
func TestWhatAnAbortDoesToTheMachine(t *testing.T) {
	for name, c := range map[string]struct {
		boots, noOff bool
		want         string // writes after the abort
	}{
		"booted":                     {boots: true, want: "power power off"},
		"booted, never switched off": {boots: true, noOff: true, want: "power rebooting"},
		"out of band":                {},
		"out of band, on for ever":   {noOff: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				step := slowly("erase", time.Hour, &log)
				if c.boots {
					step = inRamdisk("erase", true, time.Hour, &log)
				}
				step.Abortable = true
				m := &machine{power: driver.PowerOn, clean: []driver.Step{step}}
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].DisablePowerOff = c.noOff
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "erase"}}})
				time.Sleep(time.Minute)
				synctest.Wait()
				m.writes = nil
				s.abort(nodeA, provision.CleanFail)
				time.Sleep(time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.State != provision.CleanFail || !strings.HasPrefix(strings.Join(m.writes, ","), c.want) || (len(m.writes) > 0) != (c.want != "") {
					t.Errorf("ended in %q after %v: %+v", d.State, m.writes, d.Result)
				}
			})
		})
	}
}

// An abort that comes when the flow has ended undoes nothing, and says so.
func TestAbortThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOn, deploy: []driver.Step{did("only", &log)}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(time.Minute)
		synctest.Wait()
		s.abort(nodeA, provision.DeployFail)
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active || !strings.Contains(d.Result.Error, "too late") || len(m.writes) != 0 {
			t.Errorf("ended in %q, %+v, after %v", d.State, d.Result, m.writes)
		}
	})
}

// So does an abort that central accepts for the end of the running step, which must not be cut short (decision 74).
func TestAbortAfterAStepThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, clean: []driver.Step{slowly("a", 10*time.Second, &log)}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "a"}}})
		time.Sleep(20 * time.Second)
		old := s.Work(nodeA).Doc
		if old.Open() || old.State != provision.Manageable {
			t.Fatalf("state %q", old.State)
		}
		s.mu.Lock()
		n := *s.nodes[nodeA]
		n.Generation++
		s.nodes[nodeA] = &n
		d := work.Document{ID: "late", Node: nodeA, Generation: n.Generation, Verb: work.Clean, Args: old.Args, Requested: time.Now(), Entry: provision.CleanWait,
			EntryTarget: provision.Manageable, Epoch: old.Epoch + 1}
		d.Args.Continues, d.Args.AbortAfter = old.Root(), true
		d.Inherit(&old)
		d.Sign(testKey)
		s.rev++
		s.works[nodeA] = &view.Work{Doc: d, Revision: s.rev}
		s.mu.Unlock()
		s.tell(nodeA)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := s.Work(nodeA).Doc; got.Open() || got.State != provision.Manageable || !strings.Contains(got.Result.Error, "too late: the clean had ended") || len(log) != 1 {
			t.Errorf("state %q, result %+v, steps %q", got.State, got.Result, log)
		}
	})
}

// An aborted rebuild that had sent nothing to the machine leaves the instance.
func TestAbortOfAnUntouchedRebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		fetch := slowly("fetch_image", time.Hour, &log)
		fetch.Abortable, fetch.Priority, fetch.Apart = true, 110, true
		m := &machine{power: driver.PowerOn, deploy: []driver.Step{fetch}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Rebuild, provision.Deploying, work.Args{From: provision.Active})
		time.Sleep(time.Minute)
		synctest.Wait()
		s.abort(nodeA, provision.DeployFail)
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active || m.power != driver.PowerOn || !strings.Contains(d.Result.Error, "aborted") {
			t.Errorf("ended in %q, %+v; the machine is %q", d.State, d.Result, m.power)
		}
	})
}

// ramdisks is a deploy interface that boots a ramdisk for cleanings and services.
type ramdisks struct {
	*machine
	log *[]string
}

func (r ramdisks) Up(*node.Document, driver.Flows) []driver.Step {
	s := inRamdisk("up", true, 0, r.log)
	s.Discovers = true
	return []driver.Step{s}
}

func (r ramdisks) Down(_ *node.Document, f driver.Flows) []driver.Step {
	return []driver.Step{{Interface: "deploy", Name: "down_from_" + f.String(), Kind: driver.Repeatable, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		*r.log = append(*r.log, "down from "+f.String())
		return driver.Done(), t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOff)
	}}}
}

func (ramdisks) Offered(facts map[string]string, _ driver.Flows) ([]driver.Step, bool, error) {
	return nil, facts[driver.FactBooted] != "", nil
}

func withRamdisk(t *testing.T, m *machine, log *[]string) func(*Config) {
	named := []driver.Named{{Name: "m", Impl: m}}
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
		"power": named, "management": named, "boot": named, "deploy": {{Name: "m", Impl: ramdisks{m, log}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Hardware = reg }
}

// The abort of a service that had failed in the ramdisk takes the machine down from it, and
// the node is active only then. The failure's end had said that it is in the ramdisk.
func TestAbortOfAFailedServiceTakesTheMachineDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOn, clean: []driver.Step{{Interface: "deploy", Name: "broken", Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
			return driver.Outcome{}, errors.New("it failed")
		}}}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, withRamdisk(t, m, &log))
		defer kill()
		s.request(nodeA, work.Service, provision.Servicing, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "broken"}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		last := s.events[len(s.events)-1]
		if d := s.Work(nodeA).Doc; d.State != provision.ServiceFail || string(last.Internal[work.ServiceRamdisk]) != "true" || m.power != driver.PowerOn {
			t.Fatalf("ended in %q, internal %s, the machine is %q", d.State, last.Internal, m.power)
		}
		s.request(nodeA, work.Abort, provision.ServiceFail, work.Args{AbortedBoot: work.BootRamdisk})
		time.Sleep(time.Minute)
		synctest.Wait()
		last = s.events[len(s.events)-1]
		if d := s.Work(nodeA).Doc; d.State != provision.Active || strings.Join(log, ",") != "up,down from service" || string(last.Internal[work.ServiceRamdisk]) != "null" {
			t.Errorf("ended in %q after %v, internal %s", d.State, log, last.Internal)
		}
	})
}

// A step that may be cut short is not while the BMC works for it.
func TestAnAbortWaitsForTheBMC(t *testing.T) {
	for _, later := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log []string
			step := slowly("flash", 10*time.Minute, &log)
			run := step.Run
			step.Abortable = true
			step.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				if log == nil && t.Record.Handle() == nil {
					t.Record.Busy("half done")
					if err := t.Record.SaveHandle(ctx, "asked"); err != nil {
						return driver.Outcome{}, err
					}
				}
				out, err := run(ctx, t)
				if _, waits := out.Waiting(); !waits {
					t.Record.Idle()
				}
				return out, err
			}
			m := &machine{power: driver.PowerOn, clean: []driver.Step{step}}
			s := newShelf()
			oneNode(s)
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "flash"}}})
			time.Sleep(time.Minute)
			synctest.Wait()
			if later {
				s.goOn(nodeA, provision.CleanWait, true)
			} else {
				s.abort(nodeA, provision.CleanFail)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; !d.Open() {
				t.Errorf("cut short: %+v", d.Result)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.CleanFail || len(log) != 1 {
				t.Errorf("ended in %q, steps %v, %+v", d.State, log, d.Result)
			}
		})
	}
}

// waitsLong is an inspect and a rescue interface with one step, which does not say that it may be
// cut short.
type waitsLong struct {
	*machine
	log *[]string
}

func (w waitsLong) InspectSteps(*node.Document) []driver.Step {
	return []driver.Step{inRamdisk("wait", false, time.Hour, w.log)}
}
func (w waitsLong) RescueSteps(n *node.Document) []driver.Step { return w.InspectSteps(n) }
func (w waitsLong) UnrescueSteps(*node.Document) []driver.Step { return nil }

// An inspection and a rescue end when they are aborted, as in Ironic, wherever they wait.
func TestAnAbortEndsInspectionAndRescueAtOnce(t *testing.T) {
	for verb, states := range map[work.Verb][2]provision.State{
		work.Inspect: {provision.Inspecting, provision.InspectFail},
		work.Rescue:  {provision.Rescuing, provision.RescueFail},
	} {
		t.Run(string(verb), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				m := &machine{power: driver.PowerOff}
				of := func(impl driver.Interface) []driver.Named { return []driver.Named{{Name: "m", Impl: impl}} }
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": of(m), "management": of(m), "boot": of(m),
					"deploy": of(m), "inspect": of(waitsLong{m, &log}), "rescue": of(waitsLong{m, &log})}})
				if err != nil {
					t.Fatal(err)
				}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) { c.Hardware = reg })
				defer kill()
				s.request(nodeA, verb, states[0], work.Args{})
				time.Sleep(time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; !d.Open() || d.Checkpoint.Step != "deploy.wait" {
					t.Fatalf("a minute after the request: %+v", d)
				}
				s.abort(nodeA, states[1])
				time.Sleep(time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.Open() || d.State != states[1] || !strings.Contains(d.Result.Error, "abort") {
					t.Errorf("a minute after the abort: state %q, at step %q, %+v", d.State, d.Checkpoint.Step, d.Result)
				}
			})
		})
	}
}
