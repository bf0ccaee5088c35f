package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
// accepted.
var mustBeValid = map[provision.Event][]string{
	provision.EventDeploy:  {"power", "deploy"},
	provision.EventRebuild: {"power", "deploy"},
	provision.EventInspect: {"power", "inspect"},
	provision.EventClean:   {"power"},
	provision.EventRescue:  {"power", "rescue"},
}

// Validate asks the node's rackd what it thinks of the node, by kind of interface. It
// is asked about the node as n is: a rackd that has not heard of the newest change is
// an error of status 503. A rackd whose site is away is not asked.
func (d *Dispatcher) Validate(ctx context.Context, n *store.Node, m bus.Member) (map[string]ask.Validation, error) {
	if err := d.away(n); err != nil {
		return nil, err
	}
	body, err := d.Ask.Ask(ctx, m, ask.Request{Method: ask.Validate, Node: n.UUID, NodeRevision: n.RackRevision, Driver: n.Driver})
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

// validate refuses an event when the rack says that an interface which it needs is
// not in order.
func (d *Dispatcher) validate(ctx context.Context, n *store.Node, m bus.Member, e provision.Event) error {
	kind, reason := d.outOfOrder(ctx, n, m, mustBeValid[e])
	switch {
	case kind == "":
		return nil
	case e == provision.EventDeploy || e == provision.EventRebuild:
		return refuse(http.StatusBadRequest, "Failed to validate deploy or power info for node %s. Error: %s: %s", n.UUID, kind, reason)
	}
	return refuse(http.StatusBadRequest, "Failed to validate %s info for node %s before %s. Error: %s", kind, n.UUID, e, reason)
}

// outOfOrder asks the rack about n's interfaces of the kinds, and returns the first that is
// not in order and what speaks against it; empty when all are. A rack that gives no answer
// objects to nothing, and one whose site is away is not asked.
func (d *Dispatcher) outOfOrder(ctx context.Context, n *store.Node, m bus.Member, kinds []string) (kind, reason string) {
	if kinds == nil || m.Name == "" {
		return "", ""
	}
	if err := d.away(n); err != nil {
		d.Log.Info("accepted without validation", "node", n.UUID, "reason", err)
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, validateWithin)
	defer cancel()
	found, err := d.Validate(ctx, n, m)
	if err != nil {
		d.Log.Warn("accepted without validation", "node", n.UUID, "conductor", m.Name, "error", err)
		return "", ""
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
