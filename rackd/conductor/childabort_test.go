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

// An abort, and the maintenance of the parent, wait for the BMC that writes firmware. They do not wait until the BMCs of all other children
// have been told to write theirs, too.
func TestAnAbortBeginsOnNoOtherChild(t *testing.T) {
	for _, how := range []string{"an abort", "an abort that may cut short", "maintenance"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				orders := 0
				flash := flashing(5*time.Minute, func(time.Duration) string { return "writing firmware" }, nil)
				look := flash.Run
				flash.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
					if t.Record.Handle() == nil {
						orders++
					}
					return look(ctx, t)
				}
				m := &machine{power: driver.PowerOn, clean: []driver.Step{flash}}
				s := newShelf()
				oneNode(s)
				children := []string{nodeB, "cccccccc-2222-4333-8444-555555555555", "dddddddd-2222-4333-8444-555555555555"}
				for _, id := range children {
					s.put(&node.Document{UUID: id, Driver: "t", State: provision.Manageable})
				}
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash", OnChildren: true, Children: children}}})
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.State != provision.CleanWait || orders != 1 {
					t.Fatalf("state %q, %d orders", d.State, orders)
				}
				switch how {
				case "an abort":
					s.goOn(nodeA, provision.CleanWait, true)
				case "an abort that may cut short":
					s.beside(nodeA, work.Abort, work.Args{Aborts: work.Clean, DisableRamdisk: true, Steps: s.Work(nodeA).Doc.Args.Steps, Supersedes: s.Work(nodeA).Doc.ID})
				case "maintenance":
					n := *s.Node(nodeA)
					n.Maintenance, n.Revision = true, 1
					s.put(&n)
					s.tell(nodeA)
				}
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				if orders != 1 {
					t.Errorf("%d children were flashed; %q, %+v", orders, s.Work(nodeA).Doc.State, s.Work(nodeA).Doc.Result)
				}
			})
		})
	}
}
