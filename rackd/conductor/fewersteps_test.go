package conductor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A rackd dies in the first step of a rebuild, which has switched the running instance off. Its successor is of another version, lacks a
// later step of the list, and cannot run the flow. The machine counts as touched all the same, as where the successor has the list.
func TestASuccessorWithFewerStepsKnowsThatTheMachineWasTouched(t *testing.T) {
	for _, fewer := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			off := driver.Step{Interface: "deploy", Name: "switch_off", Priority: 60, Kind: driver.Repeatable, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				if err := t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOff); err != nil {
					return driver.Outcome{}, err
				}
				<-ctx.Done() // its rackd dies before anything else is written
				return driver.Outcome{}, ctx.Err()
			}}
			fails := off
			fails.Run = func(context.Context, *driver.Task) (driver.Outcome, error) {
				return driver.Outcome{}, driver.ErrInvalid
			}
			var log []string
			m := &machine{power: driver.PowerOn, deploy: []driver.Step{off, did("newer", &log)}}
			s := newShelf()
			oneNode(s)
			owner := owned("a")
			_, _, kill := conductorOn(t, s, "a", owner, m, nil)
			s.request(nodeA, work.Rebuild, provision.Deploying, work.Args{From: provision.Active})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if m.power != driver.PowerOff || len(s.Work(nodeA).Doc.Checkpoint.Plan) == 0 {
				t.Fatalf("power %q, %+v", m.power, s.Work(nodeA).Doc)
			}
			kill()
			next := &machine{power: driver.PowerOff, deploy: []driver.Step{fails, did("newer", &log)}}
			if fewer {
				next.deploy = next.deploy[:1]
			}
			owner.Store("b")
			_, _, kill = conductorOn(t, s, "b", owner, next, nil)
			defer kill()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Open() || d.State != provision.DeployFail {
				t.Errorf("fewer steps: %t: the instance was switched off, and the node is %q: %+v", fewer, d.State, d.Result)
			}
		})
	}
}
