package conductor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
)

// An undeploy takes the place of a service while a child's BMC writes firmware for it. It waits until that has ended, as for the node's own
// BMC: once it is over nothing keeps others away from the child.
func TestAnUndeployWaitsForTheBMCOfAChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOn, clean: []driver.Step{flashing(20*time.Minute, func(time.Duration) string { return "writing firmware, 30 %" }, nil)}}
		m.teardown = direct.New(direct.Settings{}).TearDownSteps(nil)
		s := newShelf()
		oneNode(s)
		off := false
		s.nodes[nodeA].AutomatedClean = &off
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Service, provision.Servicing, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash", OnChildren: true, Children: []string{nodeB}}}})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.ServiceWait || d.Checkpoint.BMC == nil || d.Checkpoint.BMC.Child != nodeB {
			t.Fatalf("state %q, BMC %+v", d.State, d.Checkpoint.BMC)
		}
		s.supersede(nodeA, work.Delete, provision.Deleting)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; !d.Open() || d.Checkpoint.BMC == nil {
			t.Errorf("15 of 20 minutes of the child's flash are over, and the undeploy has ended: state %q, BMC %+v, %+v; told what became of it: %t", d.State, d.Checkpoint.BMC, d.Result, toldOf(s, "the BMC's work"))
		}
	})
}
