package conductor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A rackd dies while the ramdisk's agent writes, and the successor lacks a step of the list, so that it ends the flow. Nothing has told it
// how the agent's step ended. A machine that must not be switched off is reset, as after a deadline: else the agent writes on.
func TestASuccessorWithFewerStepsResetsAMachineWhoseAgentMayWrite(t *testing.T) {
	var log []string
	up := driver.Step{Interface: "deploy", Name: "up", Priority: 60, Kind: driver.Repeatable, Boots: true, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		t.Facts[driver.FactBooted], t.Facts[driver.FactBoot] = "yes", driver.BootRamdisk
		return driver.Done(), t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOn)
	}}
	writes := driver.Step{Interface: "deploy", Name: "write", Priority: 50, Kind: driver.Reattachable, Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
		return driver.Wait(time.Minute), nil
	}}
	later := did("newer", &log)
	for name, steps := range map[string][]driver.Step{"a later step": {up, writes}, "the step that runs": {up, later}} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: driver.PowerOff, deploy: []driver.Step{up, writes, later}}
			s := newShelf()
			oneNode(s)
			s.nodes[nodeA].DisablePowerOff = true
			owner := owned("a")
			_, _, kill := conductorOn(t, s, "a", owner, m, nil)
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{From: provision.Available})
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Checkpoint.Step != "deploy.write" {
				t.Fatalf("%+v", d)
			}
			kill()
			next := &machine{power: driver.PowerOn, deploy: steps}
			owner.Store("b")
			_, _, kill = conductorOn(t, s, "b", owner, next, nil)
			defer kill()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			d := s.Work(nodeA).Doc
			if reset := strings.Contains(strings.Join(next.written(), ","), "power rebooting"); d.Open() || d.State != provision.DeployFail || !reset {
				t.Errorf("lacks %s: %q, %v; %+v", name, d.State, next.written(), d.Result)
			}
		})
	}
}
