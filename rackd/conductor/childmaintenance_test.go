package conductor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A child goes into maintenance while its BMC writes firmware for a step of its parent. Nothing is written to the child from then on.
// To look how far its BMC is touches nothing: the flow must not end, and forget what the BMC does, before that has ended.
func TestAChildInMaintenanceIsLookedAfterWhileItsBMCIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOn, clean: []driver.Step{flashing(20*time.Minute, func(time.Duration) string { return "writing firmware, 30 %" }, nil)}}
		s := newShelf()
		oneNode(s)
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Manageable})
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash", OnChildren: true, Children: []string{nodeB}}}})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Checkpoint.BMC == nil {
			t.Fatalf("state %q, %+v", d.State, d.Result)
		}
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Manageable, Maintenance: true, Revision: 1})
		s.tell(nodeB)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; !d.Open() {
			t.Errorf("15 of 20 minutes of the child's flash are over: the flow has ended in %q: %s", d.State, d.Result.Error)
		}
	})
}
