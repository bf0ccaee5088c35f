package api

import (
	"context"

	"github.com/ironyard/ironyard/central/store"
)

// tellKept adds a line to n's history about something that a request has set and that no rack acts on.
func tellKept(ctx context.Context, r *Request, tx *store.Tx, n *store.Node, what string) error {
	return tellHistory(ctx, r, tx, n, what+"; it is kept, and no rack acts on it")
}

// tellHistory adds a line to n's history about what the request asks for and does not get.
func tellHistory(ctx context.Context, r *Request, tx *store.Tx, n *store.Node, what string) error {
	c := caller(r)
	return tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, EventType: "kept", Event: what, User: c.User, Project: c.Project,
		State: n.ProvisionState, Target: n.TargetProvisionState, Revision: n.Revision})
}
