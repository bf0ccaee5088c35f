package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// The power targets.
const (
	PowerOn       = "power on"
	PowerOff      = "power off"
	Rebooting     = "rebooting"
	SoftRebooting = "soft rebooting"
	SoftPowerOff  = "soft power off"
)

// PowerTargets lists them all.
var PowerTargets = []string{PowerOn, PowerOff, Rebooting, SoftRebooting, SoftPowerOff}

// Power is a request to change a node's power state.
type Power struct {
	Node           *store.Node // as the caller has read it; the request is judged by what it then is
	Target         string      // one of PowerTargets
	TimeoutSeconds int         // 0: the default
	Caller
}

// Power accepts the request or says why not.
func (d *Dispatcher) Power(ctx context.Context, p Power) error {
	if !slices.Contains(PowerTargets, p.Target) {
		return refuse(http.StatusBadRequest, "The requested action %q can not be performed on node %q: it is no power target.", p.Target, p.Node.UUID)
	}
	if m, err := d.workOwner(p.Node); err == nil && !Busy(p.Node) {
		if kind, reason := d.outOfOrder(ctx, p.Node, m, []string{"power"}, nil); kind != "" {
			return refuse(http.StatusBadRequest, "Failed to validate power info for node %s before %s. Error: %s", p.Node.UUID, p.Target, reason)
		}
	}
	var locked error
	err := d.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, p.Node.UUID)
		if err != nil {
			return err
		}
		locked = Locked(n)
		switch {
		case n.ProvisionState.In(provision.PowerRefused): // whoever holds it
			return refuse(http.StatusBadRequest, "The requested action \"%s\" can not be performed on node \"%s\" while it is in state \"%s\".",
				p.Target, n.UUID, n.ProvisionState)
		case Busy(n):
			return locked
		case n.DisablePowerOff && (p.Target == PowerOff || p.Target == SoftPowerOff):
			return refuse(http.StatusConflict, "Failed to set node power state to %s.", p.Target).
				detailed("node %s must not be powered off (disable_power_off)", n.UUID)
		}
		w, err := d.asked(ctx, tx, n, work.Power, "", work.Args{PowerTarget: p.Target, TimeoutSeconds: p.TimeoutSeconds}, p.Caller,
			func() { n.AcceptPower(p.Target, d.Now()) })
		if err != nil {
			return err
		}
		return d.write(ctx, tx, &acceptance{node: n, verb: p.Target, work: w, history: store.HistoryEntry{EventType: "power",
			Event: fmt.Sprintf("%s accepted", p.Target), Conductor: w.Owner, User: p.User, Project: p.Project}})
	})
	if taken, ok := errors.AsType[*store.DuplicateError](err); ok && taken.Field == "work" {
		return locked
	}
	return err
}
