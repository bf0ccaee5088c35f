package dispatch

import (
	"context"
	"net/http"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Limits bound how many nodes may be at once in the middle of what would hurt if somebody asked it of all of them by
// mistake. A request for one more is refused with 503 and never queued, as by Ironic's max_concurrent_deploy and
// max_concurrent_clean. 0: no bound.
type Limits struct {
	// Deploys bounds the nodes in deploying and wait call-back: deploy and rebuild are refused.
	Deploys int
	// Cleans bounds those in deleting, cleaning and clean wait: undeploys and manual cleaning are refused.
	Cleans int
}

// of returns the bound that an event is subject to, 0 for none, what Ironic calls the action, and the states of
// the nodes that count.
func (l Limits) of(e provision.Event) (most int, action string, in []provision.State) {
	switch e {
	case provision.EventDeploy, provision.EventRebuild:
		return l.Deploys, "provisioning", []provision.State{provision.Deploying, provision.DeployWait}
	case provision.EventDelete:
		most, action = l.Cleans, "unprovisioning"
	case provision.EventClean:
		most, action = l.Cleans, "cleaning"
	}
	return most, action, []provision.State{provision.Deleting, provision.Cleaning, provision.CleanWait}
}

// room refuses an event for which too many nodes are busy already. That no more are accepted than a bound allows, by
// all replicas together, is the transaction's doing.
func (d *Dispatcher) room(ctx context.Context, tx *store.Tx, e provision.Event) error {
	most, action, in := d.Limits.of(e)
	if most <= 0 {
		return nil
	}
	busy, err := tx.CountNodesIn(ctx, in, most)
	if err != nil || busy < most {
		return err
	}
	return refuse(http.StatusServiceUnavailable, "Unable to process request at this time. The concurrent action limit for %s has been reached. "+
		"Please contact your administrator and try again later.", action)
}
