package api

import (
	"context"

	"github.com/ironyard/ironyard/central/store"
)

// noRackActs ends the lines of a node's history about what is kept for clients alone.
const noRackActs = "; it is kept, and no rack acts on it"

// tellKept adds a line to n's history about something that a request has set and that no rack acts on.
func tellKept(ctx context.Context, r *Request, tx *store.Tx, n *store.Node, what string) error {
	c := caller(r)
	return tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, EventType: "kept", Event: what + noRackActs, User: c.User, Project: c.Project,
		State: n.ProvisionState, Target: n.TargetProvisionState})
}
