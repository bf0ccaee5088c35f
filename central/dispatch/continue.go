package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// abortsLater reports whether an abort has to wait for the end of the running step,
// which does not allow to be cut short.
func abortsLater(n *store.Node, t provision.Transition) bool {
	if t.Event != provision.EventAbort || !n.ProvisionState.In([]provision.State{provision.CleanWait, provision.ServiceWait}) {
		return false
	}
	var running struct {
		Abortable bool `json:"abortable"`
	}
	return n.ObservedStepInfo != "" && json.Unmarshal([]byte(n.ObservedStepInfo), &running) == nil && !running.Abortable
}

// goOn accepts a request that lets the node's open work go on where it stands: out of
// a hold, or, with abort, to the end of the running step and no further. A new piece of
// work with the same flow takes its place, so that generation and epoch tell who has
// heard of it.
func (d *Dispatcher) goOn(ctx context.Context, tx *store.Tx, n *store.Node, owner string, t provision.Transition, abort bool, p *Provision) error {
	open, err := tx.OpenWork(ctx, n.UUID)
	if errors.Is(err, store.ErrNotFound) {
		return refuse(http.StatusConflict, "Node %s is in state %q and has no work to go on with: abort it.", n.UUID, n.ProvisionState)
	}
	if err != nil {
		return err
	}
	event := fmt.Sprintf("%s accepted: %s to %s", p.Verb.Name, n.ProvisionState, t.To)
	to := t.To
	if abort {
		to = n.ProvisionState
		event = fmt.Sprintf("%s accepted: it takes effect when step %s, which must not be cut short, has ended", p.Verb.Name, n.ObservedStep)
	}
	n.Accept(to, n.TargetProvisionState, d.Now())
	w := d.newWork(n, owner, p.Caller)
	w.Verb, w.Args = open.Verb, open.Args
	w.Args.AbortAfter = w.Args.AbortAfter || abort
	if w.Args.Continues == "" {
		w.Args.Continues = open.ID
	}
	return d.write(ctx, tx, &acceptance{node: n, verb: p.Verb.Name, work: w,
		history: store.HistoryEntry{EventType: "provisioning", Event: event, Conductor: owner, User: p.User, Project: p.Project}})
}
