package conductor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A reboot of a machine that must not be switched off is one reset. One that may have
// happened is not asked for again; one that was not sent is.
func TestRebootWithoutPowerOff(t *testing.T) {
	const reset, soft = "power rebooting epoch 1", "power soft rebooting epoch 1"
	for name, c := range map[string]struct {
		target string
		errs   []error
		off    bool // it ends in its middle
		writes []string
		failed string
	}{
		"rebooting":          {target: "rebooting", writes: []string{reset}},
		"soft rebooting":     {target: "soft rebooting", writes: []string{soft}},
		"the BMC is busy":    {target: "rebooting", errs: []error{driver.ErrUnreachable}, writes: []string{reset, reset}},
		"the answer is lost": {target: "rebooting", errs: []error{driver.ErrUnknown}, writes: []string{reset}, failed: "may have happened"},
		"it ends half way":   {target: "rebooting", errs: []error{driver.ErrUnknown}, off: true, writes: []string{reset, "power power on epoch 1"}, failed: "found switched off, and was switched on"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOn}
				m.powerErr = answers(c.errs)
				if c.off {
					m.onPower = func(driver.PowerState) { m.power, m.onPower = driver.PowerOff, nil }
				}
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].DisablePowerOff, s.nodes[nodeA].State = true, provision.Active
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Power, provision.Active, work.Args{PowerTarget: c.target})
				time.Sleep(time.Minute)
				d := s.Work(nodeA).Doc
				if !slices.Equal(m.writes, c.writes) || d.Open() || d.Result.OK != (c.failed == "") || !strings.Contains(d.Result.Error, c.failed) {
					t.Errorf("written %v, ended with %+v", m.writes, d.Result)
				}
			})
		})
	}
}

// A rackd dies in the middle of a reset that its driver makes of off and on. Its successor leaves no machine off: it switches on one
// that it finds off, which is the rest of the reboot. Of one that is on it is not known whether it was reset.
func TestAResetWhoseRackdDies(t *testing.T) {
	for name, c := range map[string]struct {
		beside bool // a flow that waits in the ramdisk
		step   bool // it is a step of a service
		later  bool // the machine takes a while to switch off
		off    bool
		fails  string
	}{
		"off":                      {off: true},
		"off after a while":        {off: true, later: true},
		"on":                       {fails: "may have happened"},
		"off, a step":              {step: true, off: true},
		"on, a step":               {step: true, fails: "may have happened"},
		"off, beside a flow":       {beside: true, off: true},
		"off later, beside a flow": {beside: true, off: true, later: true},
		"on, beside a flow":        {beside: true, fails: "may have happened"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				boots := driver.Step{Interface: "deploy", Name: "boot", Priority: 90, Kind: driver.Repeatable, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
					t.Facts[driver.FactBoot] = driver.BootRamdisk
					return driver.Done(), nil
				}}
				m := &machine{power: driver.PowerOn, deploy: []driver.Step{boots, waitForAgent(nil)}}
				s, owner := newShelf(), owned("a")
				oneNode(s)
				s.nodes[nodeA].DisablePowerOff, s.nodes[nodeA].State = true, provision.Active
				_, _, killA := conductorOn(t, s, "a", owner, m, nil)
				if c.beside {
					s.nodes[nodeA].State = provision.Available
					s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
					time.Sleep(time.Minute)
				}
				asked, dead := make(chan struct{}), make(chan struct{})
				m.mu.Lock()
				m.writes = nil
				m.onPower = func(driver.PowerState) {
					if c.off && !c.later {
						m.mu.Lock()
						m.power = driver.PowerOff
						m.mu.Unlock()
					}
					close(asked)
					<-dead
				}
				m.powerErr = func(driver.PowerState) (error, bool) { return context.Canceled, false }
				m.mu.Unlock()
				switch {
				case c.beside:
					s.errand(nodeA, work.Args{PowerTarget: "rebooting"})
				case c.step:
					s.request(nodeA, work.Service, provision.Servicing, work.Args{Steps: []work.Step{{Interface: "power", Step: "reboot", Args: nil}}})
				default:
					s.request(nodeA, work.Power, provision.Active, work.Args{PowerTarget: "rebooting"})
				}
				<-asked
				go killA()
				synctest.Wait()
				close(dead)
				synctest.Wait()
				m.mu.Lock()
				m.onPower, m.powerErr = nil, nil
				m.mu.Unlock()
				if c.off && c.later {
					time.AfterFunc(5*time.Second, func() { m.mu.Lock(); m.power = driver.PowerOff; m.mu.Unlock() })
				}
				owner.Store("b")
				_, _, killB := conductorOn(t, s, "b", owner, m, nil)
				defer killB()
				time.Sleep(time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				m.mu.Lock()
				defer m.mu.Unlock()
				want := []string{"power rebooting"}
				if c.off {
					want = append(want, "power power on")
				}
				var written []string
				for _, w := range m.writes {
					w, _, _ = strings.Cut(w, " epoch")
					written = append(written, w)
				}
				if !slices.Equal(written, want) || m.power != driver.PowerOn {
					t.Errorf("written %v, want %v; the machine is at %q", written, want, m.power)
				}
				failed := ""
				if c.beside {
					if told := s.errands(); len(told) != 1 {
						t.Fatalf("told %+v", told)
					} else {
						failed = told[0].Error
					}
					if !d.Open() {
						t.Errorf("the flow has ended: %+v", d.Result)
					}
					if c.off && m.prepared < 2 {
						t.Error("the next boot of the ramdisk was not prepared")
					}
				} else if d.Open() {
					t.Fatal("the work has not ended")
				} else {
					failed = d.Result.Error
				}
				if (failed == "") != (c.fails == "") || !strings.Contains(failed, c.fails) {
					t.Errorf("ended with %q, want %q", failed, c.fails)
				}
			})
		})
	}
}

// A BMC that is busy after a reset, and does not tell of the power for a while, is not asked for another one. A reset that is
// asked for twice ends the boot of the instance in its middle.
func TestAResetIsNotRepeatedForAReadThatFails(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: driver.PowerOn, deploy: []driver.Step{waitForAgent(nil)}}
			silent := 0
			m.readErr = func() error {
				if silent--; silent >= 0 {
					return driver.ErrUnreachable
				}
				return nil
			}
			s := newShelf()
			oneNode(s)
			s.nodes[nodeA].DisablePowerOff = true
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			if beside {
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				time.Sleep(time.Minute)
			}
			m.mu.Lock()
			m.writes, m.onPower = nil, func(driver.PowerState) { silent = 2 }
			m.mu.Unlock()
			if beside {
				s.errand(nodeA, work.Args{PowerTarget: "rebooting"})
			} else {
				s.request(nodeA, work.Power, provision.Available, work.Args{PowerTarget: "rebooting"})
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			d := s.Work(nodeA).Doc
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.writes) != 1 || !beside && (d.Open() || !d.Result.OK) || beside && (len(s.errands()) != 1 || s.errands()[0].Error != "") {
				t.Errorf("beside a flow %t: written %v, ended with %+v, %+v", beside, m.writes, d.Result, s.errands())
			}
		})
	}
}

// answers returns, one after the other, errors of writes that do nothing.
func answers(errs []error) func(driver.PowerState) (error, bool) {
	return func(driver.PowerState) (err error, does bool) {
		if len(errs) == 0 {
			return nil, true
		}
		err, errs = errs[0], errs[1:]
		return err, false
	}
}

// A step that reboots such a machine is done when the machine was reset, and not before.
func TestRebootStepWithoutPowerOff(t *testing.T) {
	for name, c := range map[string]struct {
		errs   []error
		resets int
		failed string
	}{
		"at once":            {nil, 1, ""},
		"the BMC is busy":    {[]error{driver.ErrUnreachable, driver.ErrUnreachable}, 3, ""},
		"the answer is lost": {[]error{driver.ErrUnknown}, 1, "may have happened"},
		"it never answers":   {slices.Repeat([]error{driver.ErrUnreachable}, 9), 3, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOn}
				m.powerErr = answers(c.errs)
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].DisablePowerOff = true
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "power", Step: "reboot"}}})
				time.Sleep(5 * time.Minute)
				d := s.Work(nodeA).Doc
				if len(m.writes) != c.resets || d.Open() || d.Result.OK != (c.failed == "") || !strings.Contains(d.Result.Error, c.failed) {
					t.Errorf("written %v, ended with %+v", m.writes, d.Result)
				}
			})
		})
	}
}

// A BMC has the time to switch a machine that the request gives it.
func TestPowerHasItsTime(t *testing.T) {
	for target, from := range map[string]driver.PowerState{"power on": driver.PowerOff, "power off": driver.PowerOn, "rebooting": driver.PowerOn} {
		for _, timeout := range []int{0, 7, 900} {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: from, powerErr: func(driver.PowerState) (error, bool) { return nil, false }}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Power, provision.Available, work.Args{PowerTarget: target, TimeoutSeconds: timeout})
				time.Sleep(2 * time.Hour)
				want := time.Duration(cmp.Or(timeout, 60)) * time.Second
				if d := s.Work(nodeA).Doc; d.Open() || !strings.Contains(d.Result.Error, fmt.Sprintf("still %q %s after", from, want)) {
					t.Errorf("%s in %d s: %+v, want an end after %s", target, timeout, d.Result, want)
				}
			})
		}
	}
}

// A machine has the time to switch itself off that the request gives it, under a successor
// too; then the error says so.
func TestSoftPowerOffHasItsTime(t *testing.T) {
	for name, dies := range map[string]bool{"one owner": false, "two owners": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOn}
				m.powerErr = func(driver.PowerState) (error, bool) { return nil, false }
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].State = provision.Active
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				began := time.Now()
				s.request(nodeA, work.Power, provision.Active, work.Args{PowerTarget: "soft power off", TimeoutSeconds: 3600})
				if dies {
					time.Sleep(20 * time.Minute)
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				}
				defer kill()
				time.Sleep(2 * time.Hour)
				d := s.Work(nodeA).Doc
				if d.Open() || d.Result.At.Sub(began) < time.Hour || d.Result.At.Sub(began) > 75*time.Minute {
					t.Fatalf("ended %s after the request: %+v", d.Result.At.Sub(began), d.Result)
				}
				if !dies && !strings.Contains(d.Result.Error, `still "power on" 1h0m0s after "soft power off" was asked for`) || strings.Contains(d.Result.Error, "within 0s") {
					t.Errorf("%s", d.Result.Error)
				}
			})
		})
	}
}
