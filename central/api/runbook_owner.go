package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/store"
)

// readRunbooks is the rule of reading a runbook that is not public.
const readRunbooks = "baremetal:runbook:get"

func runbookTarget(b *store.Runbook) *policy.Target {
	return &policy.Target{RunbookOwner: b.Owner}
}

// namedRunbook says whose the runbook is that the path names. A public one may be read by
// everybody, and belongs to nobody who would be let in by the owner's rules. As in Ironic,
// other projects' runbooks are no secret: lists leave them out, their names answer 403.
func (s *Server) namedRunbook(ctx context.Context, r *Request, at objects) (*policy.Target, error) {
	ident := r.Param(0)
	b, err := at.Runbook(ctx, ident)
	if errors.Is(err, store.ErrNotFound) {
		return nil, wire.Errorf(http.StatusNotFound, "Runbook %.255s could not be found.", ident)
	}
	if err != nil {
		return nil, err
	}
	if b.Public && r.Method == http.MethodGet {
		return &policy.Target{RunbookOwner: r.Caller.Project}, nil
	}
	return runbookTarget(b), nil
}

// mayPatchRunbook asks for the rules of the fields that a PATCH names, even where nothing changes: whose
// a runbook is has its own. A public runbook is given no owner, not even the one it has.
func mayPatchRunbook(r *Request, ops []patch.Op, b *store.Runbook) error {
	var rules []string
	others := len(ops) == 0
	for _, op := range ops {
		switch root := op.Root(); root {
		case "owner", "public":
			rules = append(rules, "baremetal:runbook:update:"+root)
		default:
			others = true
		}
	}
	if others {
		rules = append(rules, "baremetal:runbook:update") // the last that Ironic asks for
	}
	for _, rule := range rules {
		if err := r.allowed(rule, runbookTarget(b)); err != nil {
			return err
		}
	}
	public, owner := b.Public, false
	for i, op := range slices.Backward(ops) { // the first of several counts
		switch {
		case op.Kind == patch.Remove || !op.Whole():
		case op.Root() == "owner":
			owner = true
		case op.Root() == "public":
			public = ops[i].Value == true
		}
	}
	if public && owner {
		return wire.Invalid("There cannot be an owner for a public runbook")
	}
	return nil
}

// releaseRunbook takes a runbook from its owner where a PATCH says whether it is public, whichever it says, as
// in Ironic; the same PATCH may give it another.
func releaseRunbook(ops []patch.Op, b *store.Runbook) {
	for _, op := range ops {
		if op.Root() == "public" && op.Kind != patch.Remove {
			b.Owner = ""
			b.EmptyTexts.Set("owner", false)
		}
	}
}

// claimRunbook gives a project's new runbook to that project. Callers of whom nobody has said in which
// scope they act, without authentication or with a password only, are of no project to Ironic: theirs
// belong to nobody, until a PATCH gives them an owner.
func claimRunbook(r *Request, b *store.Runbook) error {
	if r.Caller.System && !r.Caller.Unscoped {
		return nil
	}
	switch {
	case b.Owner != "" && b.Owner != r.Caller.Project:
		return wire.Invalid("Cannot create a runbook as a project scoped admin with an owner other than your own project.")
	case b.Public && r.Caller.Project != "":
		return wire.Invalid("Cannot create a public runbook as a project scoped admin.")
	}
	b.Owner = r.Caller.Project
	return nil
}
