package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// Provision is a request to move a node's provision state.
type Provision struct {
	Node *store.Node // as the caller has read it; when it has changed since it is read again
	Verb provision.Verb
	// Version is the minor API version that the request speaks: some verbs came
	// to some states late.
	Version int
	// ConfigDrive is a URL, a base64 text or a JSON object; empty for none.
	ConfigDrive    string
	Steps          []work.Step
	DisableRamdisk bool
	RescuePassword string
	// MayUse says what speaks against the caller's letting a step run on a child of Node: store.ErrNotFound where they may not
	// know of it; nil: nothing. It is asked again in the transaction. nil: nothing ever does.
	MayUse func(child *store.Node) error
	Caller
}

// maxAsked is how often a rack is asked about one request, because the node changes meanwhile.
const maxAsked = 3

// changedError says that the node changed in what its rack sees, while that was asked about the request.
type changedError struct{ fresh *store.Node }

func (c *changedError) Error() string {
	return fmt.Sprintf("node %s was changed while its rack was asked about it", c.fresh.UUID)
}

// Provision accepts the request or says why not. What the rack has been asked about is what is accepted: when the node changes meanwhile,
// the rack that serves it then is asked again.
func (d *Dispatcher) Provision(ctx context.Context, p Provision) error {
	for range maxAsked {
		err := d.provision(ctx, p)
		changed, is := errors.AsType[*changedError](err)
		if !is {
			return err
		}
		p.Node = changed.fresh
	}
	return refuse(http.StatusConflict, "Node %s is changed again and again while its conductor is asked about %s. Nothing was changed; please retry.",
		p.Node.UUID, p.Verb.Name)
}

func (d *Dispatcher) provision(ctx context.Context, p Provision) error {
	n := p.Node
	t, err := check(n, &p)
	if err != nil {
		return err
	}
	owner, err := d.ownerFor(n, t)
	if err != nil {
		return err
	}
	if err := d.allowed(p.Steps); err != nil {
		return err
	}
	if p.Steps, err = d.family(ctx, &p); err != nil {
		return err
	}
	if err := d.validate(ctx, n, owner, &p); err != nil {
		return err
	}
	err = d.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		// The node as the caller has read it will do when it is still like that,
		// which the update itself finds out.
		asRead := *n
		if err := d.room(ctx, tx, p.Verb.Event); err != nil {
			return err
		}
		err := d.accept(ctx, tx, &asRead, owner.Name, &p)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		fresh, err := tx.Node(ctx, n.UUID)
		if err != nil {
			return err
		}
		if owner.Name != "" && fresh.RackRevision != n.RackRevision {
			return &changedError{fresh}
		}
		return d.accept(ctx, tx, fresh, owner.Name, &p)
	})
	if taken, ok := errors.AsType[*store.DuplicateError](err); ok && taken.Field == "work" {
		return Locked(n)
	}
	return err
}

// ownerFor finds the rackd for the work that t begins. A transition that begins no
// work needs none, and one that ends open work may be accepted while its rack is away.
func (d *Dispatcher) ownerFor(n *store.Node, t provision.Transition) (bus.Member, error) {
	if !needsRack(n, t) {
		return bus.Member{}, nil
	}
	m, err := d.workOwner(n)
	if err != nil && n.WorkID != "" {
		return bus.Member{}, nil
	}
	return m, err
}

// needsRack reports whether a transition of n begins work: those into a state where the
// node rests are done once they are accepted, unless the machine has to get there.
func needsRack(n *store.Node, t provision.Transition) bool {
	to, _ := provision.Describe(t.To)
	return to.Kind != provision.Stable || endsService(n, t)
}

// Actionable returns what a verb does to a node in its state, or the refusal: what comes
// before anything else that a request says is looked at.
func Actionable(n *store.Node, verb provision.Verb) (provision.Transition, error) {
	var none provision.Transition
	if n.Maintenance && (verb.Event == provision.EventDeploy || verb.Event == provision.EventRebuild) {
		return none, forbidden(n, verb.Event) // whatever state it is in
	}
	t, err := provision.Request(n.ProvisionState, verb)
	if err == nil {
		return t, nil
	}
	if Busy(n) {
		return none, Occupied(n)
	}
	return none, refuse(http.StatusBadRequest, "The requested action %q can not be performed on node %q while it is in state %q.",
		verb.Name, n.UUID, n.ProvisionState)
}

// check returns the transition that p asks for, or the refusal.
func check(n *store.Node, p *Provision) (provision.Transition, error) {
	var none provision.Transition
	state := n.ProvisionState
	t, err := Actionable(n, p.Verb)
	if err != nil {
		return none, err
	}
	if since := p.Verb.SinceIn(state); p.Version < since {
		return none, refuse(http.StatusNotAcceptable, "Request not acceptable.").
			detailed("The action %q in state %q needs API version 1.%d or newer", p.Verb.Name, state, since)
	}
	if Busy(n) {
		return none, Locked(n)
	}
	return t, forbidden(n, p.Verb.Event)
}

// forbidden says what besides the state machine speaks against an event.
func forbidden(n *store.Node, e provision.Event) error {
	inMaintenance := func(op string) error {
		if !n.Maintenance {
			return nil
		}
		return refuse(http.StatusBadRequest, "The %s operation can't be performed on node %s because it's in maintenance mode.", op, n.UUID)
	}
	protected := func() error {
		if !n.Protected {
			return nil
		}
		return refuse(http.StatusForbidden, "Node %s is protected and cannot be undeployed, rebuilt or deleted", n.UUID)
	}
	switch e {
	case provision.EventDeploy:
		return inMaintenance("provisioning")
	case provision.EventRebuild:
		return cmp.Or(inMaintenance("provisioning"), protected())
	case provision.EventDelete:
		return protected()
	case provision.EventClean:
		return inMaintenance("cleaning")
	case provision.EventService:
		return inMaintenance("service")
	case provision.EventRescue:
		return inMaintenance("rescuing")
	case provision.EventUnrescue:
		return inMaintenance("unrescuing")
	case provision.EventAbort:
		if n.ProvisionState == provision.ServiceFail && n.Maintenance {
			return refuse(http.StatusConflict, "Can not abort service on node %q while it is in maintenance mode. Please remove the node from "+
				"maintenance prior to issuing the request to abort the service operation.", n.UUID)
		}
	case provision.EventProvide:
		if n.Retired {
			return refuse(http.StatusBadRequest, "The provide operation can't be performed on node %s because it is retired.", n.UUID)
		}
	}
	return nil
}

// accept checks the request against n and writes it in tx, with store.ErrConflict,
// and nothing written, when n is no longer what the database holds.
func (d *Dispatcher) accept(ctx context.Context, tx *store.Tx, n *store.Node, owner string, p *Provision) error {
	t, err := check(n, p)
	if err != nil {
		return err
	}
	ofChildren, err := d.stillFamily(ctx, tx, p, owner)
	if err != nil {
		return err
	}
	event := fmt.Sprintf("%s accepted: %s to %s", p.Verb.Name, n.ProvisionState, t.To)
	if n.WorkID != "" {
		event += fmt.Sprintf(", in place of %s (work %s)", n.WorkVerb, n.WorkID)
	}
	if later := abortsLater(n, t); later || t.Event == provision.EventUnhold {
		return d.goOn(ctx, tx, n, owner, t, later, p)
	}
	dropped, err := mayReplace(ctx, tx, n, t)
	if err != nil {
		return err
	}
	event += dropped
	from, endsService := n.ProvisionState, endsService(n, t)
	if endsService { // active once the instance runs
		n.Accept(from, t.To, d.Now())
	} else {
		n.Accept(t.To, provision.TargetOf(t.To, t.Event, n.TargetProvisionState), d.Now())
	}
	if t.Event == provision.EventAbort {
		// At once: clients that see the state tell an abort from a failure by this.
		text := provision.Aborted(t.To, n.ObservedStep)
		n.AcceptedError, n.LastError = text, text
	}
	if p.RescuePassword != "" {
		info := maps.Clone(n.InstanceInfo)
		if info == nil {
			info = map[string]any{}
		}
		info[store.RescuePassword] = d.Key.Seal(seal.Label{Kind: seal.InstanceInfo, Of: n.UUID, Field: store.RescuePassword}, p.RescuePassword)
		n.InstanceInfo = info
	}
	if p.Verb.Event == provision.EventAdopt {
		nameImageType(n)
	}
	a := &acceptance{node: n, verb: p.Verb.Name, ofChildren: ofChildren, history: store.HistoryEntry{EventType: "provisioning", Event: event, Conductor: owner, User: p.User, Project: p.Project}}
	if !endsService && !needsRack(n, t) {
		return d.write(ctx, tx, a)
	}
	w := d.newWork(n, owner, p.Caller)
	w.Verb = work.Verb(p.Verb.Event)
	w.Args = work.Args{Steps: p.Steps, DisableRamdisk: p.DisableRamdisk, From: from, InMaintenance: n.Maintenance}
	if p.Verb.Event == provision.EventDeploy || p.Verb.Event == provision.EventRebuild {
		if p.Verb.Event == provision.EventDeploy { // a rebuild lends nothing
			n.Lease()
		}
		nameImageType(n)
		if w.Args.Steps, err = d.withTemplates(ctx, tx, n, p.Steps); err != nil {
			return err
		}
		if err := d.allowed(w.Args.Steps); err != nil {
			return err
		}
	}
	if w.Args.Steps, err = d.sealSteps(n, w.ID, w.Args.Steps); err != nil {
		return err
	}
	if t.Event == provision.EventService {
		if w.Args.InRamdisk, err = leftInRamdisk(ctx, tx, n, from); err != nil {
			return err
		}
	}
	if t.Event == provision.EventAbort {
		if err := aborting(ctx, tx, n, w); err != nil {
			return err
		}
		if endsService {
			w.Args.AbortedBoot = work.BootRamdisk
		}
	}
	a.work = w
	if p.Verb.Event == provision.EventDeploy || p.Verb.Event == provision.EventRebuild {
		if err := d.withDrive(ctx, tx, a, p.ConfigDrive); err != nil {
			return err
		}
	}
	return d.write(ctx, tx, a)
}
