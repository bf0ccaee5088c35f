package conductor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// While a step runs on a child, driver_info of the child is changed so that it leads to another machine's BMC. What the step does next must
// not be done to that machine, as with the node's own (TestAnotherBMCInAHold).
func TestAnotherBMCOfAChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pair{&machine{power: driver.PowerOn}, &machine{power: driver.PowerOn}}
		p.machine.identity, p.other.identity = driver.Identity{UUID: boardOne}, driver.Identity{UUID: boardTwo}
		// As firmware.update of a BMC that stages what it is told: the order, a wait, the restart.
		p.clean = []driver.Step{{Interface: "deploy", Name: "flash", Kind: driver.Reattachable, NoRamdisk: true, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if t.Record.Handle() == nil {
				if err := t.Fence.Check(); err != nil {
					return driver.Outcome{}, err
				}
				return driver.Wait(time.Minute), t.Record.SaveHandle(ctx, "staged")
			}
			if time.Since(t.Entered) < 5*time.Minute {
				return driver.Wait(time.Minute), nil
			}
			return driver.Done(), t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.Rebooting)
		}}}
		s := newShelf()
		oneNode(s)
		child := &node.Document{UUID: nodeB, Driver: "t", State: provision.Manageable, DriverInfo: map[string]any{"address": "mine"}}
		child.Machine.UUID = boardOne
		s.put(child)
		defer p.on(t, s)()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash", OnChildren: true, Children: []string{nodeB}}}})
		time.Sleep(2 * time.Minute)
		changed := *child
		changed.DriverInfo, changed.Revision = map[string]any{"address": "other"}, 1
		s.put(&changed)
		s.tell(nodeB)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if w := p.other.written(); len(w) > 0 {
			t.Errorf("another machine, of UUID %s, was sent %q by the step on the child, of UUID %s; %+v", boardTwo, w, boardOne, s.Work(nodeA).Doc.Result)
		}
	})
}
