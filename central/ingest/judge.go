package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	rules, err := g.rules(ctx, tx)
	if err != nil {
		return nil, err
	}
	var calls []inspection.Call
	for id, e := range fx.inspected {
		s, err := g.subject(ctx, tx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // it found nothing that could be processed
		}
		if err != nil {
			return nil, err
		}
		drive := s.Node.InstanceInfo[store.DriveKey]
		err = g.cfg.Inspection.Run(s, rules)
		if err == nil {
			err = g.keepDrive(ctx, tx, s, drive)
		}
		if failure, ok := errors.AsType[*inspection.Failure](err); ok {
			disappoint(nodes[id], e, failure, fx)
			err = nil
		} else if err == nil {
			err = saveSubject(ctx, tx, s)
		}
		if err != nil {
			return nil, err
		}
		plugin, err := json.Marshal(s.Plugin)
		if err != nil {
			return nil, fmt.Errorf("plugin data of node %s: %w", id, err)
		}
		if err := tx.SetPluginData(ctx, id, plugin); err != nil {
			return nil, err
		}
		calls = append(calls, s.Calls...)
	}
	return calls, nil
}

// rules reads the operators' rules. One that cannot be read, which the API would not have
// let in, is left out.
func (g *Ingest) rules(ctx context.Context, tx *store.Tx) ([]inspection.Rule, error) {
	rows, err := tx.InspectionRules(ctx)
	if err != nil {
		return nil, err
	}
	var rules []inspection.Rule
	for _, row := range rows {
		rule, err := inspection.Parse(row.Conditions, row.Actions)
		if err != nil {
			g.cfg.Log.Error("inspection rule left out", "rule", row.UUID, "error", err)
			continue
		}
		rule.UUID = row.UUID
		rules = append(rules, rule)
	}
	return rules, nil
}

// subject reads a node and what was found in it.
func (g *Ingest) subject(ctx context.Context, tx *store.Tx, id string) (*inspection.Subject, error) {
	found, err := tx.Inventory(ctx, id)
	if err != nil {
		return nil, err
	}
	n, err := tx.Node(ctx, id)
	if err != nil {
		return nil, err
	}
	ports, err := tx.Ports(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &inspection.Subject{Node: n, Ports: ports, Plugin: map[string]any{}, Log: g.cfg.Log, Inventory: map[string]any{}}
	if g.cfg.Key != nil {
		s.Seal = func(fields map[string]any) map[string]any { return g.cfg.Key.SealFields(id, fields) }
	}
	for what, part := range map[string]struct {
		text []byte
		into *map[string]any
	}{"inventory": {found.Data, &s.Inventory}, "plugin data": {found.Plugin, &s.Plugin}} {
		if len(part.text) == 0 {
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(part.text))
		dec.UseNumber()
		if err := dec.Decode(part.into); err != nil {
			return nil, fmt.Errorf("%s of node %s: %w", what, id, err)
		}
		if *part.into == nil { // null
			*part.into = map[string]any{}
		}
	}
	return s, nil
}

// keepDrive puts a config drive that a rule has set where drives are kept; before is what stood
// in its place.
func (g *Ingest) keepDrive(ctx context.Context, tx *store.Tx, s *inspection.Subject, before any) error {
	if !s.NodeChanged || g.cfg.Key == nil { // without a key no rule has touched instance_info
		return nil
	}
	err := tx.KeepDrive(ctx, s.Node, before, g.cfg.Key)
	if errors.Is(err, store.ErrDriveMask) {
		return &inspection.Failure{Reason: store.ErrDriveMask.Error()}
	}
	return err
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
	fx.add(&failed, "ERROR", "introspection", failed.Error)
}

// saveSubject writes what hooks and rules have changed.
func saveSubject(ctx context.Context, tx *store.Tx, s *inspection.Subject) error {
	if s.NodeChanged {
		if err := tx.UpdateNode(ctx, s.Node); err != nil {
			return err
		}
	}
	if s.TraitsChanged {
		if err := tx.SetTraits(ctx, s.Node.UUID, s.Node.Traits); err != nil {
			return err
		}
	}
	for _, p := range s.Removed {
		if err := tx.DeletePort(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range s.Added {
		_, err := tx.Port(ctx, p.Address)
		if err == nil {
			s.Log.Warn("no port added: another node has one with the address", "node", s.Node.UUID, "address", p.Address)
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := tx.InsertPort(ctx, p); err != nil {
			return err
		}
		delete(s.Changed, p.UUID)
	}
	for _, p := range s.Changed {
		if err := tx.UpdatePort(ctx, p); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}
