package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// goOn accepts a request that lets the node's open work go on where it stands: out of
// a hold, or, with abort, to the end of the running step and no further.
func (d *Dispatcher) goOn(ctx context.Context, tx *store.Tx, n *store.Node, owner string, t provision.Transition, abort bool, p *Provision) error {
	open, err := openFlow(ctx, tx, n)
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
	w := d.continuation(n, open, owner, p.Caller)
	w.Args.AbortAfter = w.Args.AbortAfter || abort
	if !abort {
		w.Args.LetGo = w.ID
	}
	return d.write(ctx, tx, &acceptance{node: n, verb: p.Verb.Name, work: w,
		history: store.HistoryEntry{EventType: "provisioning", Event: event, Conductor: owner, User: p.User, Project: p.Project}})
}

// openFlow returns the open work of a node whose flow waits, or the refusal of what would
// go on with it.
func openFlow(ctx context.Context, tx *store.Tx, n *store.Node) (*store.Work, error) {
	open, err := tx.OpenWork(ctx, n.UUID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, refuse(http.StatusConflict, "Node %s is in state %q and has no work to go on with: abort it.", n.UUID, n.ProvisionState)
	case err != nil:
		return nil, err
	case errandOpen(n, open):
		return nil, Locked(n) // what it is to do first would be forgotten
	}
	return open, nil
}

// continuation is the work that goes on with the flow of open, for n as just accepted: a
// new piece of work with the same flow takes its place, so that generation and epoch tell
// who has heard of it.
func (d *Dispatcher) continuation(n *store.Node, open *store.Work, owner string, c Caller) *store.Work {
	w := d.newWork(n, owner, c)
	w.Verb, w.Args = open.Verb, open.Args
	w.Args.PowerTarget, w.Args.TimeoutSeconds, w.Args.Change = "", 0, nil
	if w.Args.Continues == "" {
		w.Args.Continues = open.ID
	}
	return w
}

// asked returns the work that does what is asked of the machine, with the arguments in
// args: a piece of its own or, beside a flow that waits, one that goes on with the flow
// afterwards. It bears the id, unless that is empty. n is accepted by accept, once nothing speaks
// against it.
func (d *Dispatcher) asked(ctx context.Context, tx *store.Tx, n *store.Node, verb work.Verb, id string, args work.Args, c Caller, accept func()) (*store.Work, error) {
	var open *store.Work
	if n.WorkID != "" {
		if Busy(n) {
			return nil, Locked(n)
		}
		var err error
		if open, err = openFlow(ctx, tx, n); err != nil {
			return nil, err
		}
	}
	owner, err := d.workOwner(n)
	if err != nil {
		return nil, err
	}
	accept()
	if open == nil {
		w := d.newWork(n, owner.Name, c)
		w.Verb, w.Args, w.ID = verb, args, cmp.Or(id, w.ID)
		return w, nil
	}
	w := d.continuation(n, open, owner.Name, c)
	w.ID = cmp.Or(id, w.ID)
	w.Args.PowerTarget, w.Args.TimeoutSeconds, w.Args.Change = args.PowerTarget, args.TimeoutSeconds, args.Change
	return w, nil
}
