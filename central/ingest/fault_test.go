package ingest_test

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A BMC that is silent for a while does not take a node out of the maintenance that a failure
// of its work has put it into.
func TestPowerFailureHidesNoOtherFault(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	f.follow()
	failed := about(w, work.WorkEnded, 1)
	failed.State, failed.Target, failed.Error = provision.CleanFail, provision.Manageable, "erase failed"
	failed.SetMaintenance, failed.Fault = true, "clean failure"
	silent := about(w, work.PowerObserved, 0)
	silent.Work, silent.Generation, silent.Epoch = "", 0, 0
	silent.Power, silent.SetMaintenance, silent.Fault, silent.Error = "error", true, node.PowerFailure, "no answer"
	back := silent
	back.Power, back.SetMaintenance, back.Fault, back.Error, back.Cleared = "power on", false, "", "", node.PowerFailure
	silent.ID, back.ID = "silent", "back"
	for i, e := range []work.Event{failed, silent, back} {
		f.publish(e)
		f.drained()
		got := f.node(n.UUID)
		if !got.Maintenance || got.Fault != "clean failure" || got.MaintenanceReason != "erase failed" {
			t.Errorf("after event %d: maintenance %v, fault %q, reason %q", i+1, got.Maintenance, got.Fault, got.MaintenanceReason)
		}
	}
	if got := f.node(n.UUID); got.PowerState != "power on" {
		t.Errorf("power %q", got.PowerState)
	}
}
