package conductor

import (
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

// A service that holds without a ramdisk is aborted while a request beside it is under way. The machine runs its instance in the end,
// also where the rackd of the abort dies, and central is told what became of the request.
func TestAnAbortEndsWhatWasAskedBesideTheFlow(t *testing.T) {
	mode := &work.Change{BootMode: "bios"}
	for name, c := range map[string]struct {
		args   work.Args
		begun  bool
		dies   bool
		told   string // part of what central is told; empty: that it is done
		writes string
	}{
		"a reboot that has begun":                   {args: work.Args{PowerTarget: string(driver.Rebooting)}, begun: true, writes: "power off, power on"},
		"a soft reboot that has begun":              {args: work.Args{PowerTarget: string(driver.SoftReboot)}, begun: true, writes: "soft power off, power on"},
		"a reboot that has begun, a rackd dies":     {args: work.Args{PowerTarget: string(driver.Rebooting)}, begun: true, dies: true, writes: "power off, power on"},
		"a reboot that has not begun":               {args: work.Args{PowerTarget: string(driver.Rebooting)}, told: `aborted before the request for "rebooting"`},
		"a change that has not begun, a rackd dies": {args: work.Args{Change: mode}, dies: true, told: "aborted before the request for a change"},
		"a change that has begun":                   {args: work.Args{Change: mode}, begun: true, told: "may have been done or not"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOn}
				asked := false
				m.powerErr = func(target driver.PowerState) (error, bool) {
					if target != driver.PowerOn && !asked { // it goes off some time later, once
						time.AfterFunc(5*time.Second, func() { m.mu.Lock(); m.power = driver.PowerOff; m.mu.Unlock() })
						asked = true
					}
					return nil, target == driver.PowerOn
				}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Service, provision.Servicing, work.Args{From: provision.Active, DisableRamdisk: true, Steps: []work.Step{{Interface: "power", Step: "hold"}}})
				time.Sleep(10 * time.Second)
				if d := s.Work(nodeA).Doc; d.State != provision.ServiceHold {
					t.Fatalf("%q %+v", d.State, d.Result)
				}
				if !c.begun || c.args.Change != nil { // no rackd begins it, or goes on with it
					kill()
				}
				s.errand(nodeA, c.args)
				if c.begun && c.args.Change != nil {
					s.mu.Lock()
					w := *s.works[nodeA]
					w.Doc.Checkpoint.Errand.Phase = work.Begun
					s.works[nodeA] = &w
					s.mu.Unlock()
				}
				time.Sleep(2 * time.Second)
				s.abort(nodeA, provision.ServiceFail)
				if !c.begun || c.args.Change != nil {
					_, _, kill = conductorOn(t, s, "a", owner, m, nil)
				}
				if c.dies {
					time.Sleep(time.Second)
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				}
				defer func() { kill() }()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				d, told := s.Work(nodeA).Doc, s.errands()
				if now, _ := m.PowerState(t.Context(), nil); now != driver.PowerOn || d.Open() || d.State != provision.Active {
					t.Errorf("in %q, the machine is %q after %q; %+v", d.State, now, m.written(), d.Result)
				}
				if len(told) != 1 || !strings.Contains(told[0].Error, c.told) || (told[0].Error == "") != (c.told == "") {
					t.Fatalf("central was told %+v", told)
				}
				if c.told == "" && told[0].Power != string(driver.PowerOn) {
					t.Errorf("central was told of %q", told[0].Power)
				}
				var order []string
				for _, w := range m.written() {
					order = append(order, strings.TrimPrefix(strings.Split(w, " epoch")[0], "power "))
				}
				if got := strings.Join(slices.Compact(order), ", "); got != c.writes { // to ask again for the same changes nothing
					t.Errorf("the BMC was told %q, want %q", got, c.writes)
				}
			})
		})
	}
}

// The abort of a flow in the ramdisk decides itself about the machine's power. It tells that the request beside the flow was cut short.
func TestAnAbortInTheRamdiskRebootsNothingFirst(t *testing.T) {
	for _, soft := range []bool{false, true} {
		t.Run(fmt.Sprint("soft: ", soft), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				target := driver.Rebooting
				if soft {
					target = driver.SoftReboot
				}
				m, obeys := &machine{power: driver.PowerOff}, false
				m.powerErr = func(target driver.PowerState) (error, bool) { return nil, target == driver.PowerOn || obeys }
				m.deploy = []driver.Step{inRamdisk("write", true, time.Hour, &log)}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, withRamdisk(t, m, &log))
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				time.Sleep(10 * time.Second)
				s.errand(nodeA, work.Args{PowerTarget: string(target)})
				time.Sleep(5 * time.Second)
				m.mu.Lock()
				obeys = true
				m.mu.Unlock()
				s.abort(nodeA, provision.DeployFail)
				time.Sleep(time.Minute)
				synctest.Wait()
				d, told := s.Work(nodeA).Doc, s.errands()
				if d.Open() || d.State != provision.DeployFail || m.power != driver.PowerOff {
					t.Errorf("in %q, %q; %+v; %q", d.State, m.power, d.Result, m.written())
				}
				if len(told) != 1 || !strings.Contains(told[0].Error, "the abort decides") {
					t.Errorf("central was told %+v", told)
				}
				if w := m.written(); len(w) != 3 || !strings.Contains(w[2], "power off") {
					t.Errorf("the BMC was told %q", w)
				}
			})
		})
	}
}
