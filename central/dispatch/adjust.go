package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// Adjustment is a request to change one thing about a machine, whose provision state
// stays.
type Adjustment struct {
	Node   *store.Node // as the caller has read it
	Change work.Change
	// Work is the id that its work is to bear, for which the change is sealed (NewWorkID); empty: any.
	Work string
	// Resting: only while no transition is in progress.
	Resting bool
	// What is the change in words, for the node's history.
	What string
	Caller
}

// Adjust accepts the request or says why not. Unless the change is a vendor's method,
// the node's rackd is asked first whether the hardware can be changed so. A console that is
// as the request wants it stays so, without work.
func (d *Dispatcher) Adjust(ctx context.Context, a Adjustment) error {
	if on := a.Change.Console; on != nil && *on == a.Node.ConsoleEnabled {
		return d.checkChange(ctx, a.Node, a.Change) // it is so, whatever else is done to the node
	}
	if err := adjustable(a.Node, &a); err != nil {
		return err
	}
	if a.Change.Vendor == nil {
		if err := d.checkChange(ctx, a.Node, a.Change); err != nil {
			return err
		}
	}
	locked := Locked(a.Node)
	err := d.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, a.Node.UUID)
		if err != nil {
			return err
		}
		locked = Locked(n)
		if n.ConductorGroup != a.Node.ConductorGroup { // a rackd of the former group was asked, and what is secret is sealed for that group
			return refuse(http.StatusConflict, "Node %s went to another conductor group meanwhile. Nothing was changed (%s); please retry.", n.UUID, a.What)
		}
		if err := adjustable(n, &a); err != nil {
			return err
		}
		w, err := d.asked(ctx, tx, n, work.Adjust, a.Work, work.Args{Change: &a.Change}, a.Caller,
			func() { n.Accept(n.ProvisionState, n.TargetProvisionState, d.Now()) })
		if err != nil {
			return err
		}
		return d.write(ctx, tx, &acceptance{node: n, verb: a.What, work: w, history: store.HistoryEntry{EventType: "management",
			Event: a.What + " accepted", Conductor: w.Owner, User: a.User, Project: a.Project}})
	})
	if taken, ok := errors.AsType[*store.DuplicateError](err); ok && taken.Field == "work" {
		return locked
	}
	return err
}

func adjustable(n *store.Node, a *Adjustment) error {
	switch {
	case a.Resting && provision.Transient(n.ProvisionState): // the end of the work is not waited for
		return refuse(http.StatusConflict, "Node %s can not be changed so (%s) while it is in the transitional state %q.", n.UUID, a.What, n.ProvisionState)
	case Busy(n):
		return Locked(n)
	}
	return nil
}

func (d *Dispatcher) checkChange(ctx context.Context, n *store.Node, ch work.Change) error {
	m, err := d.Owner(n, http.StatusNotFound)
	if err != nil {
		return err
	}
	if err := d.away(n); err != nil {
		return err
	}
	args, err := json.Marshal(ch)
	if err != nil {
		return fmt.Errorf("ask about a change of node %s: %w", n.UUID, err)
	}
	_, err = d.Ask.Ask(ctx, m, ask.Request{Method: ask.CheckChange, Node: n.UUID, NodeRevision: n.RackRevision, Driver: n.Driver, Args: args})
	return err
}

// NewWorkID returns the id for work that is to come.
func NewWorkID() string { return uuid.NewString() }

// VendorCall makes the change that calls a vendor's method: its arguments are sealed for
// the node's group and the work of that id.
func (d *Dispatcher) VendorCall(n *store.Node, id, method, httpMethod string, args map[string]any) (work.Change, error) {
	if args == nil {
		args = map[string]any{}
	}
	plain, err := json.Marshal(args)
	if err != nil {
		return work.Change{}, fmt.Errorf("arguments of %s for node %s: %w", method, n.UUID, err)
	}
	data, err := d.sealed(n, seal.Label{Kind: seal.VendorData, Of: n.UUID, Work: id}, string(plain))
	if err != nil {
		return work.Change{}, fmt.Errorf("seal the arguments of %s for node %s: %w", method, n.UUID, err)
	}
	return work.Change{Vendor: &work.VendorCall{Method: method, HTTPMethod: httpMethod, Data: data}}, nil
}

// AttachMedia makes the change that puts the image of that URL, which may hold a password,
// into a virtual drive. It is sealed for the work of that id.
func (d *Dispatcher) AttachMedia(n *store.Node, id, mediaType, image string) (work.Change, error) {
	url, err := d.sealed(n, seal.Label{Kind: seal.MediaImage, Of: n.UUID, Work: id}, image)
	if err != nil {
		return work.Change{}, fmt.Errorf("seal the URL of an image for node %s: %w", n.UUID, err)
	}
	return work.Change{Media: &work.Media{Types: []string{mediaType}, Image: url}}, nil
}

// sealed seals text for the node's group.
func (d *Dispatcher) sealed(n *store.Node, label seal.Label, text string) (string, error) {
	key, err := d.groupKey(n.ConductorGroup)
	if err != nil {
		return "", err
	}
	return key.Seal(label, text), nil
}
