package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Correct has a node's machine brought back into a power state: a rackd that is told to force power has found it in the other one. What
// speaks against it is judged in the transaction, and is no error. The node has other work, is in maintenance or in another
// state than before, must not be switched off, or has another power state on record. Or a step of its parent's work is to run on it.
func (d *Dispatcher) Correct(ctx context.Context, node, power string) error {
	err := d.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, node)
		if err != nil {
			return err
		}
		if n.WorkID != "" || n.Maintenance || n.DisablePowerOff || n.PowerState != power || !n.ProvisionState.In(provision.PowerForced) {
			return nil
		}
		if _, refused := errors.AsType[*Refusal](Engaged(ctx, tx, n)); refused { // its parent's step may have switched it
			return nil
		}
		w, err := d.asked(ctx, tx, n, work.Power, "", work.Args{PowerTarget: power}, Caller{}, func() { n.AcceptPower(power, d.Now()) })
		if err != nil {
			return err
		}
		return d.write(ctx, tx, &acceptance{node: n, verb: power, work: w, history: store.HistoryEntry{EventType: "power", Conductor: w.Owner,
			Event: fmt.Sprintf("%s: the machine was found in the other state, and rackd --force-power-state says to bring it back", power)}})
	})
	if taken, ok := errors.AsType[*store.DuplicateError](err); ok && taken.Field == "work" || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
