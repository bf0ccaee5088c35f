package ingest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// A rack that has given a BMC another password reports it, sealed. It takes the place of the value that the rack has replaced and of no
// other: what a request has written meanwhile stays. So an event that comes late, or again, undoes nothing. A rack may replace a
// secret that is there. It may set no other field: those say where the secret is sent.

// replaceSecrets puts into n what e says that the node's BMC takes. It reports whether it has changed n; the caller writes n.
func (g *Ingest) replaceSecrets(n *store.Node, e *work.Event, fx *effects) (changed bool, err error) {
	if len(e.Secrets) == 0 {
		return false, nil
	}
	if g.cfg.Key == nil {
		return false, contentError{errors.New("this central has no key to open secrets with")}
	}
	key, err := g.cfg.Groups.ForGroup(n.ConductorGroup)
	if err != nil {
		return false, err
	}
	for _, s := range e.Secrets {
		next, refused, err := g.replaced(n, key, s)
		if err != nil {
			return false, contentError{fmt.Errorf("the new %.100s of node %s: %w", s.Field, n.UUID, err)}
		}
		switch {
		case refused != "":
			fx.add(e, "ERROR", "management", refused)
		case next != nil:
			what := "driver_info " + s.Field + " was changed to what the BMC takes now"
			if next[s.Field] == n.DriverInfo[s.Field] {
				what = "driver_info no longer asks for a new " + s.Field + ": the BMC takes the one that it has"
			}
			n.DriverInfo, changed = next, true
			fx.add(e, "INFO", "management", what)
		}
	}
	return changed, nil
}

// replaced returns the driver_info of n with a secret replaced, nil where it has that already. refused says why it is not.
func (g *Ingest) replaced(n *store.Node, key *seal.Key, s work.Secret) (next map[string]any, refused string, err error) {
	v, err := s.Open(key, n.UUID)
	if err != nil {
		return nil, "", err
	}
	label := seal.Label{Kind: seal.DriverInfo, Of: n.UUID}
	open, err := g.cfg.Key.OpenFields(label, n.DriverInfo)
	if err != nil {
		return nil, "", err
	}
	now, there := open[s.Field].(string)
	switch {
	case !seal.IsSecret(s.Field) || !there || v.New == "":
		return nil, fmt.Sprintf("the rack reports a new %.100s. Driver_info has no such secret, so it is not written", s.Field), nil
	case now != v.Was && now != v.New:
		return nil, "the BMC takes a new " + s.Field + ", and a request has written another one into driver_info meanwhile, which stays. Correct it: the BMC refuses it", nil
	}
	next = maps.Clone(n.DriverInfo)
	if now != v.New {
		next[s.Field] = g.cfg.Key.Seal(label.At(s.Field), v.New)
	}
	for _, field := range v.Clears {
		if seal.IsSecret(field) && open[field] == any(v.New) {
			delete(next, field)
		}
	}
	if reflect.DeepEqual(next, n.DriverInfo) {
		return nil, "", nil
	}
	return next, "", nil
}
