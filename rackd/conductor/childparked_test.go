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

// The parent is in maintenance when a step has ended on its first child. On the next child the step begins when the maintenance has ended,
// and its time counts from then: a step that gives a busy BMC an hour has not used that up.
func TestTheTimeOfAChildBeginsAfterAMaintenance(t *testing.T) {
	const nodeC = "33333333-3333-4333-8333-333333333333"
	synctest.Test(t, func(t *testing.T) {
		var began []string
		step := driver.Step{Interface: "deploy", Name: "queue", Kind: driver.Reattachable, NoRamdisk: true, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			age := t.Since(t.Entered)
			if age >= 5*time.Minute && t.Node.UUID == nodeB || t.Node.UUID == nodeC && age >= 3*time.Minute {
				return driver.Done(), nil // the BMC's queue is empty now
			}
			began = append(began, fmt.Sprint(t.Node.UUID, " ", age))
			return driver.Wait(time.Minute), nil
		}}
		s := newShelf()
		oneNode(s)
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
		s.put(&node.Document{UUID: nodeC, Driver: "t", State: provision.Available})
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOn, clean: []driver.Step{step}}, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true,
			Steps: []work.Step{{Interface: "deploy", Step: "queue", OnChildren: true, Children: []string{nodeB, nodeC}}}})
		attend := func(on bool, revision int64) {
			n := *s.Node(nodeA)
			n.Maintenance, n.Revision = on, revision
			s.put(&n)
			s.tell(nodeA)
		}
		time.Sleep(2 * time.Minute)
		attend(true, 1)
		time.Sleep(8 * time.Hour)
		attend(false, 2)
		time.Sleep(time.Hour)
		synctest.Wait()
		d := s.Work(nodeA).Doc
		if want := []string{nodeC + " 0s", nodeC + " 1m0s", nodeC + " 2m0s"}; d.Open() || !d.Result.OK || len(began) < 3 || !slices.Equal(began[len(began)-3:], want) {
			t.Errorf("began %v; %q %+v", began, d.State, d.Result)
		}
	})
}
