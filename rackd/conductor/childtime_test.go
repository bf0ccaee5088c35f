package conductor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A step that runs on one child after the other begins on each of them, and has its whole time there: whether it waits or runs through,
// and whether a rackd dies while it runs on the second one.
func TestEachChildHasTheStepsTime(t *testing.T) {
	const long, nodeC = 20 * time.Minute, "33333333-3333-4333-8333-333333333333"
	for _, c := range []struct{ waits, dies bool }{{true, false}, {false, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var began []string
				step := driver.Step{Interface: "deploy", Name: "long", Kind: driver.Reattachable, NoRamdisk: true, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
					if age := t.Since(t.Entered); !c.waits || t.Record.Handle() == nil {
						began = append(began, fmt.Sprint(t.Node.UUID, " ", age))
					} else if age >= long {
						return driver.Done(), nil
					}
					if !c.waits {
						return driver.Done(), driver.Pause(ctx, long)
					}
					return driver.Wait(time.Minute), t.Record.SaveHandle(ctx, "job")
				}}
				s, owner := newShelf(), owned("a")
				oneNode(s)
				s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
				s.put(&node.Document{UUID: nodeC, Driver: "t", State: provision.Available})
				m := &machine{power: driver.PowerOn, clean: []driver.Step{step}}
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true,
					Steps: []work.Step{{Interface: "deploy", Step: "long", OnChildren: true, Children: []string{nodeB, nodeC}}}})
				if c.dies {
					time.Sleep(long + 5*time.Minute)
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				}
				defer func() { kill() }()
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || !slices.Equal(began, []string{nodeB + " 0s", nodeC + " 0s"}) {
					t.Errorf("began %v; %q %+v", began, d.State, d.Result)
				}
			})
		})
	}
}
