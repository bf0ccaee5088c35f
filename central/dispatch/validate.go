package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
// accepted.
var mustBeValid = map[provision.Event][]string{
	provision.EventDeploy:  {"power", "deploy"},
	provision.EventRebuild: {"power", "deploy"},
	provision.EventInspect: {"power", "inspect"},
	provision.EventClean:   {"power"},
	provision.EventRescue:  {"power", "rescue"},
}

// settled is how old a change must be for a rack to have surely heard of it.
const settled = 2 * time.Second

// settle are the pauses between questions about a node that has just changed.
var settle = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}

// Validate asks the node's rackd what it thinks of the node, by kind of interface.
// A change takes a moment to reach the rack, so while one is on its way a bad
// opinion, which may be about the node as it was, is asked for again. A rackd whose
// site is away is not asked.
func (d *Dispatcher) Validate(ctx context.Context, n *store.Node, m bus.Member) (map[string]ask.Validation, error) {
	if err := d.away(n); err != nil {
		return nil, err
	}
	pauses := settle
	if changed := max(n.CreatedAt.UnixNano(), n.UpdatedAt.UnixNano()); d.Now().UnixNano()-changed > int64(settled) {
		pauses = nil
	} else if d.Settle != nil {
		pauses = d.Settle
	}
	for {
		found, err := d.opinion(ctx, n, m)
		if len(pauses) == 0 || err == nil && good(found) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, err
		case <-time.After(pauses[0]):
			pauses = pauses[1:]
		}
	}
}

// opinion asks once.
func (d *Dispatcher) opinion(ctx context.Context, n *store.Node, m bus.Member) (map[string]ask.Validation, error) {
	body, err := d.Ask.Ask(ctx, m, ask.Request{Method: ask.Validate, Node: n.UUID, Driver: n.Driver})
	if err != nil {
		return nil, err
	}
	var found map[string]ask.Validation
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, fmt.Errorf("read the answer of conductor %s about node %s: %w", m.Name, n.UUID, err)
	}
	return found, nil
}

// good reports whether nothing is found wrong.
func good(found map[string]ask.Validation) bool {
	for _, v := range found {
		if v.Result != nil && !*v.Result {
			return false
		}
	}
	return true
}

// validate refuses an event when the rack says that an interface which it needs is
// not in order. A rack that gives no answer refuses nothing, and one whose site is away
// is not asked.
func (d *Dispatcher) validate(ctx context.Context, n *store.Node, m bus.Member, e provision.Event) error {
	kinds := mustBeValid[e]
	if kinds == nil || m.Name == "" {
		return nil
	}
	if err := d.away(n); err != nil {
		d.Log.Info("accepted without validation", "node", n.UUID, "reason", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, validateWithin)
	defer cancel()
	found, err := d.Validate(ctx, n, m)
	if err != nil {
		d.Log.Warn("accepted without validation", "node", n.UUID, "conductor", m.Name, "error", err)
		return nil
	}
	for _, kind := range kinds {
		v := found[kind]
		if v.Result != nil && *v.Result || v.Result == nil && v.Reason == "" {
			continue // in order, or not heard of
		}
		if slices.Contains([]provision.Event{provision.EventDeploy, provision.EventRebuild}, e) {
			return refuse(http.StatusBadRequest, "Failed to validate deploy or power info for node %s. Error: %s: %s", n.UUID, kind, v.Reason)
		}
		return refuse(http.StatusBadRequest, "Failed to validate %s info for node %s before %s. Error: %s", kind, n.UUID, e, v.Reason)
	}
	return nil
}
