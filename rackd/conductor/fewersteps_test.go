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

// A rackd dies while it makes a machine's boot into the ramdisk ready: the medium is in the drive, and no checkpoint tells of it yet. The
// successor lacks a later step, or the running one, and ends the flow. It takes the medium out of the drive all the same.
func TestASuccessorWithFewerStepsTakesTheMediumOut(t *testing.T) {
	up := driver.Step{Interface: "deploy", Name: "up", Priority: 60, Kind: driver.Repeatable, Boots: true, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		if err := t.Hardware.Boot().PrepareRamdisk(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
		<-ctx.Done() // its rackd dies before anything else is written
		return driver.Outcome{}, ctx.Err()
	}}
	var log []string
	newer := did("newer", &log)
	for name, steps := range map[string][]driver.Step{"a later step": {up}, "the step that runs": {newer}} {
		for _, aborts := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOff, deploy: []driver.Step{up, newer}}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{From: provision.Available})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if m.prepared != 1 {
					t.Fatalf("%+v", s.Work(nodeA).Doc)
				}
				kill()
				if aborts {
					s.abort(nodeA, provision.DeployFail)
				}
				next := &machine{power: driver.PowerOff, deploy: steps}
				owner.Store("b")
				_, _, kill = conductorOn(t, s, "b", owner, next, nil)
				defer kill()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() {
					t.Fatalf("lacks %s, aborted: %t: %+v", name, aborts, d)
				}
				if told := strings.Contains(d.Result.Error, "medium in its drive"); next.cleanedUp != 1 && !told {
					t.Errorf("lacks %s, aborted: %t: cleaned up %d times, and %+v does not tell of it", name, aborts, next.cleanedUp, d.Result)
				}
			})
		}
	}
}
