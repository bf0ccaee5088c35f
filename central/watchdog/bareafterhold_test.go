package watchdog

import (
	"context"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A service with disable_ramdisk takes the place of one that holds in the ramdisk. The racks know from that one's checkpoint that the
// machine is there. The row of the new work does not say so. Where central ends it, the machine is in the ramdisk all the same.
func TestABareServiceAfterAHoldInTheRamdisk(t *testing.T) {
	r := newRack(t)
	r.begin(work.Service, provision.ServiceHold, provision.Active, work.Args{From: provision.Active, Steps: []work.Step{{Interface: "deploy", Step: "x"}, {Interface: "power", Step: "hold"}}})
	r.update(func(ctx context.Context, tx *store.Tx) error { // what the racks tell of that hold
		n, err := tx.Node(ctx, nodeID)
		if err != nil {
			return err
		}
		n.DriverInternalInfo = map[string]any{"service_steps": []any{map[string]any{"interface": "deploy", "step": "x", "requires_ramdisk": true},
			map[string]any{"interface": "power", "step": "hold", "requires_ramdisk": true}}, "service_step_index": 1}
		return tx.UpdateObservation(ctx, n)
	})
	r.now = r.now.Add(time.Minute)
	// What central/dispatch makes of {"target": "service", "disable_ramdisk": true} in service hold. InRamdisk is left to the rack
	// (work.Document.Inherit).
	r.begin(work.Service, provision.Servicing, provision.Active, work.Args{From: provision.ServiceHold, DisableRamdisk: true, Steps: []work.Step{{Interface: "firmware", Step: "update"}}})
	r.pass(r.watchdog(), 2*time.Hour)
	n := r.node()
	if booted, _ := n.DriverInternalInfo[work.ServiceRamdisk].(bool); n.ProvisionState != provision.ServiceFail || !booted {
		t.Errorf("in %q, %v: an abort says active and leaves the machine in the ramdisk", n.ProvisionState, n.DriverInternalInfo)
	}
}
