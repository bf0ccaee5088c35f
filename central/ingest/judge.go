package ingest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// judge processes what the inspections of a batch found, when they have ended well: the
// rack has done its part then. Where the hooks or an operator's rule say no, the node's
// inspection has failed after all, and nothing but the data is kept.
func (g *Ingest) judge(ctx context.Context, tx *store.Tx, nodes map[string]*store.Node, fx *effects) ([]inspection.Call, error) {
	if len(fx.inspected) == 0 {
		return nil, nil
	}
	rules, err := inspection.Rules(ctx, tx, g.cfg.Log)
	if err != nil {
		return nil, err
	}
	var calls []inspection.Call
	for id, e := range fx.inspected {
		made, err := g.cfg.Inspection.Process(ctx, tx, inspection.Found{Node: id, Rules: rules, Source: e.Source, Key: g.cfg.Key, Log: g.cfg.Log})
		if failure, ok := errors.AsType[*inspection.Failure](err); ok {
			disappoint(nodes[id], e, failure, fx)
		} else if err != nil {
			return nil, err
		}
		calls = append(calls, made...)
	}
	return calls, nil
}

// disappoint makes a node's inspection one that has failed.
func disappoint(n *store.Node, e *work.Event, why *inspection.Failure, fx *effects) {
	failed := *e
	failed.State, failed.Error = provision.InspectFail, why.Error()
	failed.Target = provision.TargetOf(provision.InspectFail, provision.EventFail, provision.Manageable)
	enter(n, &failed)
	n.InspectionFinished = time.Time{}
	for _, w := range fx.ended {
		if w.ID == e.Work {
			w.Error = failed.Error
		}
	}
	// The line that told of its good end was not true.
	fx.history = slices.DeleteFunc(fx.history, func(h *store.HistoryEntry) bool { return h.Work == e.Work && h.Event == endedWell(e) })
	fx.add(&failed, "ERROR", "introspection", failed.Error)
}
