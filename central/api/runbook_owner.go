package api

import (
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/store"
)

// readRunbooks is the rule whose failure hides a runbook, unless that is public.
const readRunbooks = "baremetal:runbook:get"

func runbookTarget(b *store.Runbook) *policy.Target {
	return &policy.Target{RunbookOwner: b.Owner}
}

func (r *Request) seesRunbook(b *store.Runbook) bool {
	return b.Public || r.allowed(readRunbooks, runbookTarget(b)) == nil
}

// namedRunbook says whose the runbook is that the path names. A public one may be read by
// everybody, and belongs to nobody who would be let in by the owner's rules.
func (s *Server) namedRunbook(r *Request) (*policy.Target, error) {
	ident := r.Param(0)
	b, err := s.Store.Runbook(r.Context(), ident)
	if errors.Is(err, store.ErrNotFound) || err == nil && !r.seesRunbook(b) {
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

// checkRunbookOwner gives a project's new runbook to that project, and lets the system's
// members only change whose a runbook is. before is nil for a new one.
func checkRunbookOwner(r *Request, before, b *store.Runbook) error {
	if before == nil {
		if r.may == nil || r.Caller.System {
			return nil
		}
		switch {
		case b.Owner != "" && b.Owner != r.Caller.Project:
			return wire.Invalid("Cannot create a runbook as a project scoped admin with an owner other than your own project.")
		case b.Public:
			return wire.Invalid("Cannot create a public runbook as a project scoped admin.")
		}
		b.Owner = r.Caller.Project
		return nil
	}
	if b.Owner != before.Owner {
		if err := r.allowed("baremetal:runbook:update:owner", runbookTarget(before)); err != nil {
			return err
		}
	}
	if b.Public != before.Public {
		return r.allowed("baremetal:runbook:update:public", runbookTarget(before))
	}
	return nil
}
