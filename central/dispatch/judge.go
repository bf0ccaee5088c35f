package dispatch

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// judged are the events whose steps a rack judges: those that requests name, and whether it
// can boot the ramdisk that they need.
var judged = []provision.Event{provision.EventDeploy, provision.EventRebuild, provision.EventClean, provision.EventService, provision.EventInspect, provision.EventRescue}

// validate refuses what the rack can judge before anything is accepted: the interfaces that an
// event needs, and the steps of the request and of the deploy templates that it brings along.
// Where the rack cannot be asked, its work judges the same before it touches the machine.
func (d *Dispatcher) validate(ctx context.Context, n *store.Node, m bus.Member, p *Provision) error {
	e := p.Verb.Event
	var flow *ask.Flow
	if slices.Contains(judged, e) && m.Name != "" {
		steps, err := d.toJudge(ctx, n, p)
		if err != nil {
			return err
		}
		flow = &ask.Flow{Verb: work.Verb(e), Steps: steps, Whole: true, DisableRamdisk: p.DisableRamdisk, RescuePassword: p.RescuePassword != ""}
	}
	kind, reason := d.outOfOrder(ctx, n, m, mustBeValid[e], flow)
	switch {
	case kind == "":
		return nil
	case kind == ask.Steps:
		return refuse(http.StatusBadRequest, "Failed to validate the %s steps of node %s. Error: %s", e, n.UUID, reason)
	case e == provision.EventDeploy || e == provision.EventRebuild:
		return refuse(http.StatusBadRequest, "Failed to validate deploy or power info for node %s. Error: %s: %s", n.UUID, kind, reason)
	}
	return refuse(http.StatusBadRequest, "Failed to validate %s info for node %s before %s. Error: %s", kind, n.UUID, e, reason)
}

// toJudge returns the steps that p brings along, without their secrets.
func (d *Dispatcher) toJudge(ctx context.Context, n *store.Node, p *Provision) ([]work.Step, error) {
	steps := p.Steps
	if p.Verb.Event == provision.EventDeploy || p.Verb.Event == provision.EventRebuild {
		if traits, err := instanceTraits(n); err == nil && traits != nil {
			err := d.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
				steps, err = d.withTemplates(ctx, tx, n, p.Steps)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	out := make([]work.Step, len(steps))
	for i, s := range steps {
		var err error
		if s.Args, err = seal.MapArgs(s.Args, withoutTexts); err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

// withoutTexts withholds a secret, unless it tells nothing: an empty text, or how long secrets are. A password may be given as a
// number. 0 stands for that: that there is a number is judged.
func withoutTexts(path string, secret any) (any, error) {
	switch v := secret.(type) {
	case float64, json.Number:
		if strings.HasSuffix(strings.ToLower(path), "_length") {
			return v, nil
		}
		return 0, nil
	case string:
		if v == "" {
			return v, nil
		}
	}
	return seal.Withheld, nil
}
