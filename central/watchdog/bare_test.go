package watchdog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A service with disable_ramdisk has booted no ramdisk, also where a rackd of before has told that its steps need one. The machine runs
// its instance, unless a service before has left it in the ramdisk.
func TestAServiceWithoutARamdiskWasNotInIt(t *testing.T) {
	for _, left := range []bool{false, true} {
		t.Run(fmt.Sprint("left there before: ", left), func(t *testing.T) {
			r := newRack(t)
			r.begin(work.Service, provision.ServiceWait, provision.Active, work.Args{From: provision.Active, DisableRamdisk: true, InRamdisk: left,
				Steps: []work.Step{{Interface: "power", Step: "wait"}}})
			r.update(func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, nodeID)
				if err != nil {
					return err
				}
				n.DriverInternalInfo = map[string]any{"service_steps": []any{map[string]any{"interface": "power", "step": "wait", "requires_ramdisk": true}}, "service_step_index": 0}
				return tx.UpdateObservation(ctx, n)
			})
			r.pass(r.watchdog(), 2*time.Hour)
			n := r.node()
			if got, told := n.DriverInternalInfo[work.ServiceRamdisk].(bool); n.ProvisionState != provision.ServiceFail || !told || got != left {
				t.Errorf("in %q, %v", n.ProvisionState, n.DriverInternalInfo)
			}
		})
	}
}
