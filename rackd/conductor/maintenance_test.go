package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// maintain puts the node into maintenance or takes it out, and time goes by.
func (s *shelf) maintain(on bool, fault string, d time.Duration) {
	n := *s.Node(nodeA)
	n.Maintenance, n.Fault = on, fault
	s.put(&n)
	s.tell(nodeA)
	time.Sleep(d)
	synctest.Wait()
}

// linesOf are the lines of history of a phase.
func (s *shelf) linesOf(name string) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		for _, l := range e.Lines() {
			if l.Phase == name {
				lines = append(lines, l.Detail)
			}
		}
	}
	return lines
}

// switchOn is a step that switches the machine on.
func switchOn() driver.Step {
	return driver.Step{Interface: "deploy", Name: "switch_on", Priority: 40, Kind: driver.Repeatable, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		return driver.Done(), t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOn)
	}}
}

// slowFirst are two steps: one that takes a minute, and one that switches the machine on.
func slowFirst(log *[]string) []driver.Step {
	a := slowly("a", time.Minute, log)
	a.Priority = 60
	return []driver.Step{a, switchOn()}
}

// A node that goes into maintenance in the middle of a flow ends the step that runs and begins no other, for however
// long, on whichever rackd; then the flow goes on. The history says both, once.
func TestMaintenanceParksAFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, deploy: slowFirst(&log)}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.maintain(true, "", 3*24*time.Hour)
		parked := func(by string) {
			t.Helper()
			d := s.Work(nodeA).Doc
			if !d.Open() || d.Owner != by || d.State != provision.DeployWait || d.Checkpoint.Parked.Before != "deploy.switch_on" || d.Checkpoint.Phase != work.Ended || strings.Join(log, "") != "a" || len(m.writes) != 0 {
				t.Fatalf("of %s: state %q, step %s %s, %+v, steps %v, writes %v, %+v", d.Owner, d.State, d.Checkpoint.Step, d.Checkpoint.Phase, d.Checkpoint.Parked, log, m.writes, d.Result)
			}
		}
		parked("a")
		if s.mu.Lock(); s.events[len(s.events)-1].StepInfo != nil {
			t.Error("a step is told of as running while the flow is parked")
		}
		s.mu.Unlock()
		kill()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		parked("b")
		owner.Store("c") // the ring names another: the work is given away
		c, _, killC := conductorOn(t, s, "c", owner, m, nil)
		defer killC()
		for _, one := range []*Conductor{c, s.watch[1]} {
			one.RingChanged()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		parked("c")
		kill()
		s.maintain(false, "", time.Minute)
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || d.State != provision.Active || m.power != driver.PowerOn || d.Checkpoint.Parked.Is() {
			t.Errorf("after the maintenance: %q, %+v, %+v", d.State, d.Checkpoint, d.Result)
		}
		if p, g := s.linesOf("parked"), s.linesOf("goes on"); len(p) != 1 || len(g) != 1 || !strings.Contains(p[0], "deploy.switch_on") {
			t.Errorf("the history says %q and %q", p, g)
		}
		if got := s.states(); !slices.Equal(got, []string{"deploying", "wait call-back", "deploying", "wait call-back", "deploying", "active"}) {
			t.Errorf("states reported: %v", got)
		}
	})
}

// The time of a step that waits stands still in maintenance, and what was left of it is left afterwards, also to
// another rackd.
func TestMaintenanceStopsTheClock(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: driver.PowerOff, deploy: []driver.Step{waitForAgent(nil)}}
			s := newShelf()
			oneNode(s)
			owner := owned("a")
			_, _, kill := conductorOn(t, s, "a", owner, m, nil)
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(10 * time.Minute) // of 30
			synctest.Wait()
			s.maintain(true, "", 5*time.Hour)
			if dies {
				kill()
				time.Sleep(5 * time.Hour)
				synctest.Wait()
				owner.Store("b")
				_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				time.Sleep(time.Hour)
				synctest.Wait()
			}
			defer kill()
			if d := s.Work(nodeA).Doc; !d.Open() {
				t.Fatalf("in maintenance: %q, %+v", d.State, d.Result)
			}
			s.maintain(false, "", 19*time.Minute)
			if d := s.Work(nodeA).Doc; !d.Open() {
				t.Errorf("19 of 20 minutes afterwards: %q, %+v", d.State, d.Result)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "timed out") {
				t.Errorf("21 of 20 minutes afterwards: %q, %+v", d.State, d.Result)
			}
		})
	}
}

// What an operator asks for beside a parked flow is done at once: power, an adjustment, an abort.
func TestRequestsBesideAParkedFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff, deploy: slowFirst(&log)}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.maintain(true, "", time.Hour)
		s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOn)})
		time.Sleep(time.Hour)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; !d.Open() || d.Checkpoint.Parked.Before != "deploy.switch_on" || m.power != driver.PowerOn || len(s.errands()) != 1 || s.errands()[0].Error != "" {
			t.Fatalf("power beside it: %q, %+v, %v, %+v", d.State, d.Checkpoint.Parked, m.writes, s.errands())
		}
		if p := s.linesOf("parked"); len(p) != 1 {
			t.Errorf("the history says %q", p)
		}
		s.abort(nodeA, provision.DeployFail)
		time.Sleep(time.Second)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.DeployFail || strings.Join(log, "") != "a" || !strings.Contains(d.Result.Error, "abort") {
			t.Errorf("aborted: %q, %+v, steps %v", d.State, d.Result, log)
		}
	})
}

// Which requests are carried out that were made in maintenance.
func TestRequestsMadeInMaintenance(t *testing.T) {
	for _, c := range []struct {
		verb   work.Verb
		entry  provision.State
		fault  string
		args   work.Args
		parks  bool
		until  string // the steps that it runs before it parks
		inBand bool   // the cleaning's step is the agent's
	}{
		{verb: work.Power, entry: provision.Available, args: work.Args{PowerTarget: string(driver.PowerOn)}},
		{verb: work.Manage, entry: provision.Verifying},
		{verb: work.Adopt, entry: provision.Adopting},
		{verb: work.Abort, entry: provision.CleanFail},
		{verb: work.Delete, entry: provision.Deleting},
		{verb: work.Delete, entry: provision.Deleting, inBand: true, parks: true, until: "down"},
		{verb: work.Delete, entry: provision.Deleting, fault: "service failure", inBand: true, parks: true, until: "down"},
		{verb: work.Delete, entry: provision.Deleting, fault: node.PowerFailure},
		{verb: work.Provide, entry: provision.Cleaning},
		{verb: work.Provide, entry: provision.Cleaning, inBand: true, parks: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log []string
			m := &machine{power: driver.PowerOff, teardown: []driver.Step{slowly("down", time.Second, &log)}, clean: []driver.Step{slowly("erase", time.Second, &log)}}
			m.clean[0].Priority, m.clean[0].InBand = 10, c.inBand
			s := newShelf()
			oneNode(s)
			s.nodes[nodeA].Maintenance, s.nodes[nodeA].Fault = true, c.fault
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			c.args.InMaintenance = true
			s.request(nodeA, c.verb, c.entry, c.args)
			time.Sleep(time.Hour)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Open() != c.parks || c.parks && strings.Join(log, " ") != c.until || !c.parks && !d.Result.OK {
				t.Errorf("%s with fault %q: state %q, open %t, steps %v, %+v", c.verb, c.fault, d.State, d.Open(), log, d.Result)
			}
			s.maintain(false, "", time.Hour)
			if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK {
				t.Errorf("%s after the maintenance: state %q, %+v", c.verb, d.State, d.Result)
			}
		})
	}
}

// A step that has failed is not tried again in maintenance: that would switch a machine at which a person may be. It is afterwards.
func TestNothingIsTriedAgainInMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, silent := &machine{power: driver.PowerOff}, true
		m.powerErr = func(driver.PowerState) (error, bool) {
			if silent {
				return driver.ErrUnreachable, false
			}
			return nil, true
		}
		on := switchOn()
		on.Retries, on.Pause = 10, time.Minute
		m.deploy = []driver.Step{on}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(90 * time.Second)
		before := len(m.written())
		s.maintain(true, "", 5*time.Hour)
		if d := s.Work(nodeA).Doc; len(m.written()) != before || !d.Open() || d.State != provision.DeployWait {
			t.Errorf("%d orders in maintenance, state %q, %+v", len(m.written())-before, d.State, d.Result)
		}
		silent = false
		s.maintain(false, "", time.Minute)
		if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.Active || m.power != driver.PowerOn {
			t.Errorf("afterwards: state %q, the machine is %q, %+v", d.State, m.power, d.Result)
		}
	})
}

// A step that has failed in maintenance is not tried again there by the next owner either, nor because a request beside the flow has it
// taken up again.
func TestNothingIsTriedAgainInMaintenanceByWhoComesNext(t *testing.T) {
	for _, dies := range []bool{true, false} {
		t.Run(fmt.Sprint("its rackd dies: ", dies), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, silent := &machine{power: driver.PowerOff}, true
				m.powerErr = func(driver.PowerState) (error, bool) {
					if silent {
						return driver.ErrUnreachable, false
					}
					return nil, true
				}
				on := switchOn()
				on.Retries, on.Pause = 10, time.Minute
				m.deploy = []driver.Step{on}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				time.Sleep(90 * time.Second)
				s.maintain(true, "", 5*time.Hour)
				before := len(m.written())
				if silent = false; dies {
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				} else {
					s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOff)})
				}
				defer kill()
				time.Sleep(5 * time.Hour)
				synctest.Wait()
				if !dies && (len(s.errands()) != 1 || s.errands()[0].Error != "") {
					t.Errorf("beside it: %+v", s.errands())
				}
				if d := s.Work(nodeA).Doc; len(m.written()) != before || !d.Open() || d.State != provision.DeployWait {
					t.Errorf("orders in maintenance %q, state %q, %+v", m.written()[before:], d.State, d.Result)
				}
				s.maintain(false, "", time.Minute)
				if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.Active || m.power != driver.PowerOn {
					t.Errorf("afterwards: state %q, the machine is %q, %+v", d.State, m.power, d.Result)
				}
			})
		})
	}
}

// An abort does not try a step again in maintenance that has failed, also in the pause before another try: nothing runs that it could leave
// its time. While the BMC is at work, the step looks until that is over.
func TestAnAbortTriesNothingInMaintenance(t *testing.T) {
	for _, later := range []bool{true, false} {
		for name, c := range map[string]struct {
			at    time.Duration // when the maintenance begins; tries are at each full minute
			waits time.Duration // until the abort
			busy  bool
			want  int // orders after the abort
		}{
			"it waits for the end of the maintenance":  {at: 90 * time.Second, waits: time.Hour},
			"it pauses, in maintenance":                {at: 90 * time.Second, waits: 10 * time.Second},
			"it has failed in maintenance, and pauses": {at: 59 * time.Second, waits: 5 * time.Second},
			"its BMC is at work":                       {at: 90 * time.Second, waits: time.Hour, busy: true, want: 1},
		} {
			t.Run(fmt.Sprintf("%s, central shows it as waiting for the step: %t", name, later), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, silent := &machine{power: driver.PowerOff}, true
					m.powerErr = func(driver.PowerState) (error, bool) {
						if silent {
							return driver.ErrUnreachable, false
						}
						return nil, true
					}
					on := switchOn()
					order := on.Run
					on.Retries, on.Pause = 10, time.Minute
					on.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
						if c.busy {
							t.Record.Busy("running")
						}
						if c.at < time.Minute && t.Record.Handle() == nil { // the first try takes a minute and ends in maintenance
							if err := errors.Join(t.Record.SaveHandle(ctx, "begun"), driver.Pause(ctx, time.Minute)); err != nil {
								return driver.Outcome{}, err
							}
						}
						return order(ctx, t)
					}
					m.deploy = []driver.Step{on}
					s := newShelf()
					oneNode(s)
					_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
					defer kill()
					s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
					time.Sleep(c.at)
					s.maintain(true, "", c.waits)
					before := len(m.written())
					if silent = false; later {
						s.goOn(nodeA, provision.DeployWait, true)
					} else {
						s.abort(nodeA, provision.DeployFail)
					}
					time.Sleep(time.Hour)
					synctest.Wait()
					d := s.Work(nodeA).Doc
					if d.Open() || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "abort") {
						t.Errorf("in %q, %+v", d.State, d.Result)
					}
					if w := m.written()[before:]; before == 0 || len(w) != c.want {
						t.Errorf("%d orders before the abort, and %q after it", before, w)
					}
				})
			})
		}
	}
}

// A step that fails in maintenance ends the flow, and nothing is sent to the machine until the maintenance has ended: not by the next owner
// either, nor beside a request for power. The step is not run again. An abort is done at once.
func TestAFailureInMaintenanceSendsNothing(t *testing.T) {
	const none, dies, handed, power, aborted, abortedLater = "", "its rackd dies", "the ring names another", "power is asked for", "it is aborted", "it is aborted, central waits"
	for _, verb := range []work.Verb{work.Clean, work.Provide, work.Service} {
		for _, how := range []string{none, dies, handed, power, aborted, abortedLater} {
			t.Run(strings.TrimSuffix(string(verb)+", "+how, ", "), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tries := 0
					erase := driver.Step{Interface: "deploy", Name: "erase", Priority: 10, InBand: true, Kind: driver.Reattachable, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
						if time.Since(t.Entered) < 5*time.Minute {
							return driver.Wait(10 * time.Second), nil
						}
						tries++
						return driver.Outcome{}, driver.ErrInvalid
					}}
					m := &machine{power: driver.PowerOff, clean: []driver.Step{inRamdisk("up", true, time.Second, new([]string)), erase}}
					s, owner := newShelf(), owned("a")
					oneNode(s)
					named := []driver.Named{{Name: "m", Impl: m}}
					reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named,
						"boot": {{Name: "m", Impl: fromMedium{m}}}, "deploy": named}})
					if err != nil {
						t.Fatal(err)
					}
					on := func(name string) (*Conductor, func()) {
						c, _, kill := conductorOn(t, s, name, owner, m, func(cfg *Config) { cfg.Hardware = reg })
						return c, kill
					}
					a, kill := on("a")
					defer func() { kill() }()
					args := work.Args{From: provision.Manageable, InMaintenance: verb == work.Provide}
					if verb != work.Provide {
						args.Steps = []work.Step{{Interface: "deploy", Step: "up"}, {Interface: "deploy", Step: "erase"}}
					}
					entry := map[work.Verb]provision.State{work.Clean: provision.Cleaning, work.Provide: provision.Cleaning, work.Service: provision.Servicing}[verb]
					failed, _ := provision.Next(entry, provision.EventFail)
					s.request(nodeA, verb, entry, args)
					time.Sleep(time.Minute)
					before := len(m.written())
					s.maintain(true, "", time.Hour)
					waits := func(by string, writes int) {
						t.Helper()
						d := s.Work(nodeA).Doc
						if w := m.written()[before:]; !d.Open() || d.Owner != by || d.State != flow.WaitsIn[verb] || d.Checkpoint.Leaving == nil || len(w) != writes || tries != 1 {
							t.Fatalf("of %s: in %q, %+v, %d tries, sent %q; %+v", d.Owner, d.State, d.Checkpoint.Leaving, tries, w, d.Result)
						}
					}
					waits("a", 0)
					if s.mu.Lock(); s.events[len(s.events)-1].StepInfo != nil {
						t.Error("a step is told of as running while its failure waits")
					}
					s.mu.Unlock()
					switch how {
					case dies:
						kill()
						owner.Store("b")
						_, kill = on("b")
						time.Sleep(time.Hour)
						synctest.Wait()
						waits("b", 0)
					case handed:
						owner.Store("b")
						b, killB := on("b")
						defer killB()
						for _, one := range []*Conductor{a, b} {
							one.RingChanged()
						}
						time.Sleep(time.Hour)
						synctest.Wait()
						waits("b", 0)
					case power:
						s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOff)})
						time.Sleep(time.Hour)
						synctest.Wait()
						if len(s.errands()) != 1 || s.errands()[0].Error != "" || m.power != driver.PowerOff {
							t.Errorf("beside it: %+v, the machine is %q", s.errands(), m.power)
						}
						waits("a", 1)
					case aborted, abortedLater:
						if how == aborted {
							s.abort(nodeA, failed.To)
						} else {
							s.goOn(nodeA, flow.WaitsIn[verb], true)
						}
						time.Sleep(time.Hour)
						synctest.Wait()
						if s.Work(nodeA).Doc.Open() {
							t.Error("it is not done at once")
						}
					}
					s.maintain(false, "", 10*time.Minute)
					d := s.Work(nodeA).Doc
					want, off := failed.To, driver.PowerOff
					if verb == work.Service && how == aborted { // it has nothing that brings the instance back
						want, off = provision.Active, driver.PowerOn
					}
					if d.Open() || d.State != want || m.power != off || tries != 1 {
						t.Errorf("in %q, the machine is %q after %q, %d tries; %+v", d.State, m.power, m.written(), tries, d.Result)
					}
					if p, g := s.linesOf("parked"), s.linesOf("goes on"); len(p) != 1 || !strings.Contains(p[0], "deploy.erase has failed") || len(g) != 1 && how != aborted && how != abortedLater {
						t.Errorf("the history says %q and %q", p, g)
					}
				})
			})
		}
	}
}

// fromMedium is a machine whose ramdisk runs from a medium: a service that failed leaves it off.
type fromMedium struct{ *machine }

func (fromMedium) BootsFromMedium() bool                                   { return true }
func (fromMedium) InstanceOnMedium(*node.Document, map[string]string) bool { return false }
