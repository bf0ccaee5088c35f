package conductor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/smbios"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// pair are two machines with a BMC each. The address in driver_info says whose BMC is asked.
type pair struct {
	*machine
	other *machine
}

func (p pair) at(n *node.Document) *machine {
	if n.DriverString("address") == "other" {
		return p.other
	}
	return p.machine
}

func (p pair) PowerState(ctx context.Context, n *node.Document) (driver.PowerState, error) {
	return p.at(n).PowerState(ctx, n)
}

func (p pair) SetPower(ctx context.Context, f driver.Fence, n *node.Document, s driver.PowerState) error {
	return p.at(n).SetPower(ctx, f, n, s)
}

func (p pair) Identity(ctx context.Context, n *node.Document) (driver.Identity, error) {
	return p.at(n).Identity(ctx, n)
}

// InspectSteps boot the ramdisk and wait for its agent.
func (pair) InspectSteps(*node.Document) []driver.Step {
	up := inRamdisk("boot_ramdisk", true, time.Hour, new([]string))
	up.Interface = "inspect"
	return []driver.Step{up}
}

// on starts a rackd of the pair.
func (p pair) on(t *testing.T, s *shelf) (kill func()) {
	t.Helper()
	named := []driver.Named{{Name: "m", Impl: p}}
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named, "inspect": named}})
	if err != nil {
		t.Fatal(err)
	}
	_, _, kill = conductorOn(t, s, "a", owned("a"), p.machine, func(c *Config) { c.Hardware = reg })
	return kill
}

// reachBy changes driver_info of the shelf's node.
func (s *shelf) reachBy(info map[string]any) {
	n := *s.Node(nodeA)
	n.DriverInfo = info
	n.Revision++
	s.put(&n)
	s.tell(nodeA)
	synctest.Wait()
}

// In a hold driver_info is changed. The flow goes on by another way only to the machine that it began with.
func TestAnotherBMCInAHold(t *testing.T) {
	for name, c := range map[string]struct {
		first, then smbios.System // what the two BMCs say
		inspected   smbios.System
		change      map[string]any
		errand      bool // power is asked for in the hold
		says        string
	}{
		"another machine's":               {first: smbios.System{UUID: boardOne}, then: smbios.System{UUID: boardTwo}, inspected: smbios.System{UUID: boardOne}, change: map[string]any{"address": "other"}, says: "it is another machine's"},
		"another machine's, and power":    {first: smbios.System{UUID: boardOne}, then: smbios.System{UUID: boardTwo}, inspected: smbios.System{UUID: boardOne}, change: map[string]any{"address": "other"}, errand: true, says: "it is another machine's"},
		"the same machine's":              {first: smbios.System{UUID: boardOne}, then: smbios.System{UUID: boardOneMixed}, inspected: smbios.System{UUID: boardOne}, change: map[string]any{"address": "other"}},
		"neither BMC tells":               {change: map[string]any{"address": "other"}, says: "nothing shows that it is the same machine's"},
		"the first BMC does not tell":     {then: smbios.System{UUID: boardTwo}, change: map[string]any{"address": "other"}, says: "nothing shows that it is the same machine's"},
		"the other BMC does not tell":     {first: smbios.System{UUID: boardOne}, inspected: smbios.System{UUID: boardOne}, change: map[string]any{"address": "other"}, says: "nothing shows that it is the same machine's"},
		"other credentials, no BMC tells": {change: map[string]any{"address": "mine", "username": "x", "password": "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pair{&machine{power: driver.PowerOn}, &machine{power: driver.PowerOn}}
				p.machine.identity, p.other.identity = driver.Identity{UUID: c.first.UUID}, driver.Identity{UUID: c.then.UUID}
				var wiped []string
				p.clean = []driver.Step{{Interface: "deploy", Name: "wipe", Kind: driver.Repeatable, NoRamdisk: true, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
					wiped = append(wiped, t.Node.DriverString("address"))
					return driver.Done(), t.Fence.Check()
				}}}
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].Machine, s.nodes[nodeA].DriverInfo = c.inspected, map[string]any{"address": "mine"}
				defer p.on(t, s)()
				s.request(nodeA, work.Service, provision.Servicing, work.Args{From: provision.Active, DisableRamdisk: true, Steps: []work.Step{
					{Interface: "deploy", Step: "hold"}, {Interface: "deploy", Step: "wipe"}, {Interface: "power", Step: "power_off"}}})
				time.Sleep(10 * time.Second)
				s.reachBy(c.change)
				if c.errand {
					s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOff)})
					time.Sleep(time.Minute)
					if told := s.errands(); len(told) != 1 || !strings.Contains(told[0].Error, c.says) || s.Work(nodeA).Doc.State != provision.ServiceHold {
						t.Errorf("power in %q is told as %+v", s.Work(nodeA).Doc.State, told)
					}
				}
				s.goOn(nodeA, provision.ServiceWait, false)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.Result.OK != (c.says == "") || !strings.Contains(d.Result.Error, c.says) {
					t.Fatalf("in %q: %+v", d.State, d.Result)
				}
				if c.says != "" && (len(wiped) > 0 || len(p.other.written()) > 0) || c.says == "" && !slices.Equal(wiped, []string{c.change["address"].(string)}) {
					t.Errorf("wiped by way of %q, and the other BMC was told %q", wiped, p.other.written())
				}
			})
		})
	}
}

// An inspection was begun with the BMC of a wrong machine, and driver_info is corrected while it waits. However it ends, the machine that
// driver_info names now is not touched, for no inspection has booted it. The history says what is left of the one that was booted.
func TestAnInspectionLeavesAMachineThatItHasNotBooted(t *testing.T) {
	for _, how := range []string{"deadline", "abort"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pair{&machine{power: driver.PowerOff}, &machine{power: driver.PowerOn}}
				s := newShelf()
				oneNode(s)
				s.nodes[nodeA].DriverInfo = map[string]any{"address": "wrong"}
				defer p.on(t, s)()
				s.request(nodeA, work.Inspect, provision.Inspecting, work.Args{From: provision.Manageable})
				time.Sleep(time.Minute)
				s.reachBy(map[string]any{"address": "other"})
				if how == "abort" {
					s.abort(nodeA, provision.InspectFail)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if w := p.other.written(); len(w) > 0 || p.machine.power != driver.PowerOn || d.Open() || d.State != provision.InspectFail {
					t.Errorf("in %q: %q was sent to a machine that was not booted; the one that was is %q; %+v", d.State, w, p.machine.power, d.Result)
				}
				if !strings.Contains(d.Result.Error, "The machine that was booted is left as it is") || !strings.Contains(d.Result.Error, "leads to another BMC") {
					t.Errorf("told %q", d.Result.Error)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if !slices.ContainsFunc(s.events, func(e work.Event) bool {
					return slices.ContainsFunc(e.Before, func(l work.Line) bool {
						return l.Phase == "not cleaned up" && strings.Contains(l.Detail, "that was booted is left")
					})
				}) {
					t.Error("the history does not say what is left")
				}
			})
		})
	}
}
