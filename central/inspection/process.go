package inspection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// Found is a node whose inventory, as tx holds it, is to be processed.
type Found struct {
	Node  string // UUID
	Rules []Rule // as Rules returns them
	// Source says who has told it.
	Source work.Source
	// Key seals the secrets that rules set; nil: they may set none.
	Key *seal.Key
	Log *slog.Logger
}

// Process runs hooks and rules on what was found in a node, and writes what they have made of
// it: all of it or, when the error is a *Failure, the plugin data alone. The calls are for a
// Caller, once tx is committed. Of a node that is gone, or in which nothing was found, there is
// nothing to process.
func (p *Processor) Process(ctx context.Context, tx *store.Tx, f Found) ([]Call, error) {
	s, err := f.subject(ctx, tx)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	drive := s.Node.InstanceInfo[store.DriveKey]
	refused := p.Run(s, f.Rules)
	if refused == nil {
		if refused, err = f.keepDrive(ctx, tx, s, drive); err != nil {
			return nil, err
		}
	}
	if refused == nil {
		s.keepMachine()
	}
	if refused == nil && s.NodeChanged {
		if err := s.Node.CheckSize(); err != nil {
			refused = &Failure{Reason: err.Error()}
		}
	}
	if refused == nil {
		if err := s.save(ctx, tx); err != nil {
			return nil, err
		}
		if serials := s.serials(); serials != nil {
			s.Serials = serials
		}
	}
	plugin, err := json.Marshal(s.Plugin)
	if err != nil {
		return nil, fmt.Errorf("plugin data of node %s: %w", f.Node, err)
	}
	if err := tx.SetProcessed(ctx, f.Node, plugin, s.Serials); err != nil {
		return nil, err
	}
	return s.Calls, refused
}

// Rules reads the operators' rules. One that cannot be read, which the API would not have
// let in, is left out.
func Rules(ctx context.Context, tx *store.Tx, log *slog.Logger) ([]Rule, error) {
	rows, err := tx.InspectionRules(ctx)
	if err != nil {
		return nil, err
	}
	var rules []Rule
	for _, row := range rows {
		rule, err := Parse(row.Conditions, row.Actions)
		if err != nil {
			log.Error("inspection rule left out", "rule", row.UUID, "error", err)
			continue
		}
		rule.UUID = row.UUID
		rules = append(rules, rule)
	}
	return rules, nil
}

// subject reads the node and what was found in it.
func (f *Found) subject(ctx context.Context, tx *store.Tx) (*Subject, error) {
	found, err := tx.Inventory(ctx, f.Node)
	if err != nil {
		return nil, err
	}
	n, err := tx.Node(ctx, f.Node)
	if err != nil {
		return nil, err
	}
	ports, err := tx.Ports(ctx, f.Node)
	if err != nil {
		return nil, err
	}
	s := &Subject{Node: n, Ports: ports, Source: f.Source, Plugin: map[string]any{}, Serials: found.Serials, Log: f.Log, Inventory: map[string]any{}}
	if f.Key != nil {
		s.Seal = func(kind seal.Kind, fields map[string]any) map[string]any {
			return f.Key.SealFields(seal.Label{Kind: kind, Of: f.Node}, fields)
		}
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
			return nil, fmt.Errorf("%s of node %s: %w", what, f.Node, err)
		}
		if *part.into == nil { // null
			*part.into = map[string]any{}
		}
	}
	return s, nil
}

// keepDrive puts a config drive that a rule has set where drives are kept; before is what stood
// in its place.
func (f *Found) keepDrive(ctx context.Context, tx *store.Tx, s *Subject, before any) (refused, err error) {
	if !s.NodeChanged || f.Key == nil { // without a key no rule has touched instance_info
		return nil, nil
	}
	err = tx.KeepDrive(ctx, s.Node, before, f.Key)
	if errors.Is(err, store.ErrDriveMask) {
		return &Failure{Reason: store.ErrDriveMask.Error()}, nil
	}
	return nil, err
}

// save writes what hooks and rules have changed.
func (s *Subject) save(ctx context.Context, tx *store.Tx) error {
	if s.NodeChanged {
		if err := tx.UpdateNode(ctx, s.Node); err != nil {
			return err
		}
	}
	if s.machineChanged {
		if err := tx.UpdateObservation(ctx, s.Node); err != nil {
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
