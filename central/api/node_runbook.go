package api

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// readRunbook reads the name or UUID of the runbook that a provision request names in
// place of steps; empty for none.
func readRunbook(r *Request, p *dispatch.Provision, body map[string]any) (string, error) {
	v := body["runbook"]
	if v == nil {
		return "", nil
	}
	if r.Version < runbookSince {
		return "", wire.NotAcceptable("The argument runbook", runbookSince)
	}
	for _, steps := range []string{"clean_steps", "service_steps"} {
		if body[steps] != nil {
			return "", wire.Invalid("runbook cannot be used with %s: the steps come from the runbook", steps)
		}
	}
	ident, isText := v.(string)
	if !isText {
		return "", wire.Invalid("Expected a logical name or UUID but received %.80s.", wire.Repr(v))
	}
	return nameOrUUID(r, ident)
}

// useRunbook takes the steps of a runbook, in their order, if the node is one of those
// that the runbook is for.
func (s *Server) useRunbook(r *Request, p *dispatch.Provision, ident string) error {
	b, err := s.Store.Runbook(r.Context(), ident)
	if errors.Is(err, store.ErrNotFound) {
		return wire.Errorf(http.StatusNotFound, "Runbook %.255s could not be found.", ident)
	}
	if err != nil {
		return err
	}
	if err := r.allowed("baremetal:runbook:use", runbookTarget(b)); err != nil {
		return err
	}
	if r.Version >= runbookTraitsSince && len(b.Traits) == 0 {
		return wire.Invalid("Runbook %s has no traits configured, so it fits no node. Give it a trait of the nodes for which it is meant.", b.UUID)
	}
	if !suits(b, p.Node, r) {
		return unsuited(r, b, p.Node)
	}
	if p.Verb.Event != provision.EventClean && p.Verb.Event != provision.EventService {
		return wire.Invalid("\"runbook\" is only valid when setting target provision state to clean or service")
	}
	if p.Verb.Event == provision.EventService && r.Version < serviceRamdiskSince {
		// Each runbook says whether it needs the ramdisk; Ironic takes that for the argument, true or not.
		return wire.NotAcceptable("For a service the disable_ramdisk of runbook "+b.Name, serviceRamdiskSince)
	}
	steps := slices.Clone(b.Steps)
	slices.SortStableFunc(steps, func(a, b store.ListedStep) int { return cmp.Compare(a.Rank, b.Rank) })
	p.Steps = make([]work.Step, len(steps))
	for i, step := range steps {
		if step.Args, err = openListed(s.Key, b.UUID, step); err != nil {
			return err
		}
		p.Steps[i] = step.Work("runbook " + b.Name)
	}
	p.DisableRamdisk = p.DisableRamdisk || b.DisableRamdisk
	return nil
}

// suits reports whether the node has one of the runbook's traits, or for older requests the
// one that is the runbook's name.
func suits(b *store.Runbook, n *store.Node, r *Request) bool {
	if r.Version < runbookTraitsSince {
		return slices.Contains(n.Traits, b.Name)
	}
	return slices.ContainsFunc(b.Traits, func(t string) bool { return slices.Contains(n.Traits, t) })
}

// unsuited refuses a runbook for a node that does not suit it.
func unsuited(r *Request, b *store.Runbook, n *store.Node) error {
	if r.Version < runbookTraitsSince {
		return wire.Invalid("This runbook has not been approved for use on this node %s. Please ask an administrator to add it to your node traits.", n.UUID)
	}
	return wire.Invalid("This runbook has not been approved for use on this node %s. The node does not have any of the runbook's traits ['%s']. "+
		"Please ask an administrator to add a matching trait to your node.", n.UUID, strings.Join(b.Traits, "', '"))
}
