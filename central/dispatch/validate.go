package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// validateWithin bounds the question to the rack while a client waits. Past it the
// request is accepted: its work validates again as its first step.
const validateWithin = 5 * time.Second

// mustBeValid says which interfaces a rack has to find in order before an event is
// accepted: those that its work looks at first.
var mustBeValid = map[provision.Event][]string{
	provision.EventDeploy:  {"power", "management", "boot", "deploy", "storage"},
	provision.EventRebuild: {"power", "management", "boot", "deploy", "storage"},
	provision.EventInspect: {"power", "management", "inspect"},
	provision.EventClean:   {"power", "management"},
	provision.EventService: {"power", "management"},
	provision.EventRescue:  {"power", "management", "rescue"},
}

// Validate asks the node's rackd what it thinks of the node, by kind of interface. It
// is asked about the node as n is: a rackd that has not heard of the newest change is
// an error of status 503. A rackd whose site is away is not asked.
func (d *Dispatcher) Validate(ctx context.Context, n *store.Node, m bus.Member) (map[string]ask.Validation, error) {
	return d.validateFor(ctx, n, m, nil)
}

// validateFor does so, and asks about a flow, nil for none.
func (d *Dispatcher) validateFor(ctx context.Context, n *store.Node, m bus.Member, flow *ask.Flow) (map[string]ask.Validation, error) {
	if err := d.away(n); err != nil {
		return nil, err
	}
	q := ask.Request{Method: ask.Validate, Node: n.UUID, NodeRevision: n.RackRevision, Driver: n.Driver}
	if flow != nil {
		args, err := json.Marshal(flow)
		if err != nil {
			return nil, err
		}
		q.Args = args
	}
	body, err := d.Ask.Ask(ctx, m, q)
	if err != nil {
		return nil, err
	}
	var found map[string]ask.Validation
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, fmt.Errorf("read the answer of conductor %s about node %s: %w", m.Name, n.UUID, err)
	}
	checkTraits(n, found)
	return found, nil
}

// outOfOrder asks the rack about n's interfaces of the kinds and about a flow, nil for none. It
// returns the first that is not in order and what speaks against it; empty when all are. A rack that gives no answer
// objects to nothing, and one whose site is away is not asked.
func (d *Dispatcher) outOfOrder(ctx context.Context, n *store.Node, m bus.Member, kinds []string, flow *ask.Flow) (kind, reason string) {
	if kinds == nil || m.Name == "" {
		return "", ""
	}
	if err := d.away(n); err != nil {
		d.Log.Info("accepted without validation", "node", n.UUID, "reason", err)
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, validateWithin)
	defer cancel()
	found, err := d.validateFor(ctx, n, m, flow)
	if err != nil {
		d.Log.Warn("accepted without validation", "node", n.UUID, "conductor", m.Name, "error", err)
		return "", ""
	}
	if flow != nil {
		kinds = append(slices.Clone(kinds), ask.Steps)
	}
	for _, kind := range kinds {
		v := found[kind]
		if v.Result != nil && *v.Result || v.Result == nil && v.Reason == "" {
			continue // in order, or not heard of
		}
		return kind, v.Reason
	}
	return "", ""
}
