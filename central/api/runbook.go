package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// runbookTraitsSince is the version from which traits say which nodes a runbook is for,
// so that its name is free.
const runbookTraitsSince microversion.Version = 112

// runbookTable is every field of a runbook.
var runbookTable = fields.New("runbook",
	fields.UUID("uuid", runbookSince, func(b *store.Runbook) *string { return &b.UUID }).Post().List().Sort(),
	fields.Text("name", runbookSince, func(b *store.Runbook) *string { return &b.Name }).Write().Must().Max(255).List().Sort(),
	fields.Text("description", runbookTraitsSince, func(b *store.Runbook) *string { return &b.Description }).KeepEmpty(func(b *store.Runbook) fields.Empties { return &b.EmptyTexts }).Write().Unheard().Max(255).Sort().Early(fields.Sorting),
	stepsField(runbookRank, runbookSince, func(b *store.Runbook) *[]store.ListedStep { return &b.Steps }),
	fields.Bool("disable_ramdisk", runbookSince, false, func(b *store.Runbook) *bool { return &b.DisableRamdisk }).Write().Plain().Sort(),
	fields.Bool("public", runbookSince, false, func(b *store.Runbook) *bool { return &b.Public }).Write().Plain().Sort(),
	fields.Text("owner", runbookSince, func(b *store.Runbook) *string { return &b.Owner }).KeepEmpty(func(b *store.Runbook) fields.Empties { return &b.EmptyTexts }).Write().Max(255).Sort(),
	fields.Strings("traits", runbookTraitsSince, func(b *store.Runbook) *[]string { return &b.Traits }).Unheard(),
	fields.Object("extra", runbookSince, func(b *store.Runbook) *map[string]any { return &b.Extra }).Write(),
	fields.Time("created_at", runbookSince, func(b *store.Runbook) time.Time { return b.CreatedAt }).Sort(),
	fields.Time("updated_at", runbookSince, func(b *store.Runbook) time.Time { return b.UpdatedAt }).Sort(),
).Later("description").Order("uuid", "created_at", "updated_at", "name", "extra", "public", "owner", "disable_ramdisk", "description", "links", "steps", "traits")

func (s *Server) runbooks() Resource {
	const all, one, late = "runbooks", "runbooks/{runbook}", http.StatusMethodNotAllowed
	const read, write = "baremetal:runbook:get", "baremetal:runbook:update"
	c := s.runbookCollection()
	traits, trait := one+"/traits", one+"/traits/{trait}"
	return Resource{Name: all, Since: runbookSince, Routes: []Route{
		{Method: http.MethodGet, Path: all, Policy: "baremetal:runbook:list", Handle: c.list},
		{Method: http.MethodPost, Path: all, Late: late, Policy: "baremetal:runbook:create", Handle: c.create},
		{Method: http.MethodGet, Path: one, Policy: read, Handle: c.show},
		{Method: http.MethodPatch, Path: one, Late: late, Policy: write, ByField: true, Handle: c.change},
		{Method: http.MethodDelete, Path: one, Late: late, Policy: "baremetal:runbook:delete", Handle: c.delete},
		{Method: http.MethodGet, Path: traits, Since: runbookTraitsSince, Policy: read, Handle: s.listRunbookTraits, Shows: traitsAnswer},
		{Method: http.MethodPut, Path: traits, Summary: "Replace the traits of a runbook", Since: runbookTraitsSince, Policy: write, Handle: s.replaceRunbookTraits, Takes: traitsBody},
		{Method: http.MethodDelete, Path: traits, Summary: "Remove all traits of a runbook", Since: runbookTraitsSince, Policy: write, Handle: s.clearRunbookTraits},
		{Method: http.MethodPut, Path: trait, Summary: "Add a trait to a runbook", Since: runbookTraitsSince, Policy: write, Handle: s.addRunbookTrait, Takes: nothing},
		{Method: http.MethodDelete, Path: trait, Summary: "Remove a trait from a runbook", Since: runbookTraitsSince, Policy: write, Handle: s.removeRunbookTrait},
	}}
}

func (s *Server) runbookCollection() *collection[store.Runbook] {
	return &collection[store.Runbook]{
		path: "runbooks", noun: "Runbook", another: "A runbook", item: "runbook_ident", markers: nameMarker, table: runbookTable, fieldsSince: runbookSince, detailSince: runbookSince, ident: nameOrUUID,
		filters: map[string]microversion.Version{"project": runbookSince},
		store:   s.Store, find: s.Store.Runbook,
		page: func(r *Request, p store.Page) ([]*store.Runbook, error) {
			return s.Store.Runbooks(r.Context(), store.RunbookQuery{Page: p, Project: r.Query["project"]})
		},
		read: (*store.Tx).Runbook, insert: (*store.Tx).InsertRunbook, update: (*store.Tx).UpdateRunbook, remove: (*store.Tx).DeleteRunbook,
		fresh: func() *store.Runbook { return &store.Runbook{} },
		id:    func(b *store.Runbook) *string { return &b.UUID },
		check: s.checkRunbook, mayPatch: mayPatchRunbook, begin: releaseRunbook,
	}
}

// checkRunbook says what a runbook's fields cannot say alone.
func (s *Server) checkRunbook(_ context.Context, r *Request, _ *store.Tx, before, b *store.Runbook) (err error) {
	if before == nil || before.Name != b.Name {
		// A name from a version before traits says which nodes the runbook is for; a change
		// may free it all the same, as in Ironic.
		if err := checkTrait(b.Name); before == nil && r.Version < runbookTraitsSince && err != nil {
			return wire.Invalid("Schema error for runbook: %v", err)
		}
		called := "runbook"
		if before != nil {
			called = "patch"
		}
		switch {
		case b.Name == "":
			return wire.Invalid("Schema error for %s: '' should be non-empty", called)
		case !wire.Logical(b.Name):
			return wire.Invalid("Schema error for %s: %s does not match '^[A-Za-z0-9\\\\-._~]+$'", called, wire.Repr(b.Name))
		}
	}
	var stored []store.ListedStep
	if before != nil {
		stored = before.Steps
	}
	if b.Steps, err = s.sealListed(b.UUID, stored, b.Steps); err != nil {
		return err
	}
	if before == nil {
		b.EmptyTexts.Set("owner", false)
		return claimRunbook(r, b)
	}
	return nil
}

func (s *Server) listRunbookTraits(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	c := s.runbookCollection()
	ident, err := c.named(r)
	if err != nil {
		return Reply{}, err
	}
	b, err := c.find(r.Context(), ident)
	if err != nil {
		return Reply{}, c.missing(ident, err)
	}
	return ok(append(wire.AppendValue([]byte(`{"traits":`), append([]string{}, b.Traits...)), '}'))
}

func (s *Server) replaceRunbookTraits(r *Request) (Reply, error) {
	traits, err := readTraits(r)
	if err != nil {
		return Reply{}, err
	}
	return s.changeRunbookTraits(r, func([]string) ([]string, error) {
		if traits == nil {
			return nil, eitherTraits("runbook")
		}
		return traits, nil
	})
}

func (s *Server) clearRunbookTraits(r *Request) (Reply, error) {
	return s.changeRunbookTraits(r, func([]string) ([]string, error) { return nil, nil })
}

func (s *Server) addRunbookTrait(r *Request) (Reply, error) {
	name := r.Param(1)
	if err := checkTrait(name); err != nil {
		return Reply{}, wire.Invalid("Schema error for trait: %v", err)
	}
	all, err := readTraits(r)
	if err != nil {
		return Reply{}, err
	}
	reply, err := s.changeRunbookTraits(r, func(old []string) ([]string, error) {
		if all != nil {
			return nil, eitherTraits("runbook")
		}
		return append(slices.Clone(old), name), nil
	})
	reply.Location = r.Base + "/v1/runbooks/" + r.Param(0) + "/traits/" + name
	return reply, err
}

// removeRunbookTrait takes a trait away; one that is not there is as good as gone.
func (s *Server) removeRunbookTrait(r *Request) (Reply, error) {
	return s.changeRunbookTraits(r, func(old []string) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(old), func(t string) bool { return t == r.Param(1) }), nil
	})
}

// changeRunbookTraits replaces a runbook's traits by what change makes of them.
func (s *Server) changeRunbookTraits(r *Request, change func(old []string) ([]string, error)) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	c := s.runbookCollection()
	ident, err := c.named(r)
	if err != nil {
		return Reply{}, err
	}
	err = s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		b, err := tx.Runbook(ctx, ident)
		if err != nil {
			return c.missing(ident, err)
		}
		if b.Traits, err = change(b.Traits); err != nil {
			return err
		}
		slices.Sort(b.Traits)
		b.Traits = slices.Compact(b.Traits)
		return tx.UpdateRunbookTraits(ctx, b)
	})
	if err != nil {
		return Reply{}, c.refusal(err)
	}
	return noContent()
}
