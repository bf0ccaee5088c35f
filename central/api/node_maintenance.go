package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

// setMaintenance takes {"reason": TEXT}, or no body at all.
func (s *Server) setMaintenance(r *Request) (Reply, error) {
	args, err := r.Arguments(wire.MaxBody, "", "reason")
	if err != nil {
		return Reply{}, err
	}
	reason, isText := args["reason"].(string)
	if args["reason"] != nil && !isText {
		return Reply{}, wire.Invalid("Expected string for reason: %.80s", wire.Repr(args["reason"]))
	}
	return s.changeMaintenance(r, true, reason, isText && reason == "")
}

func (s *Server) clearMaintenance(r *Request) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	return s.changeMaintenance(r, false, "", false)
}

// changeMaintenance puts a node into maintenance or takes it out; empty: a reason was given, "".
func (s *Server) changeMaintenance(r *Request, on bool, reason string, empty bool) (Reply, error) {
	err := s.Store.UpdateOf(r.Context(), r.Param(0), func(ctx context.Context, tx *store.Tx) error {
		n, err := s.nodeForWrite(ctx, r, tx, r.Param(0))
		if err != nil {
			return err
		}
		n.SetMaintenance(on, reason)
		n.EmptyTexts.Set("maintenance_reason", empty)
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		return tx.Tell(ctx, dispatch.Dirty(n))
	})
	if err != nil {
		return Reply{}, storeError(err)
	}
	return Reply{Status: http.StatusAccepted}, nil
}

// onlyOf is only in the words of Ironic's schema of that name.
func onlyOf(schema string, body map[string]any, names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(body)) {
		if !slices.Contains(names, name) {
			return wire.Invalid("Schema error for %s: Additional properties are not allowed ('%.80s' was unexpected)", schema, name)
		}
	}
	return nil
}

// only refuses keys of a body that are not among names.
func only(body map[string]any, names ...string) error {
	query := make(wire.Query, len(body))
	for name := range body {
		query[name] = ""
	}
	return query.Allow(names...)
}
