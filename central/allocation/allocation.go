// Package allocation reserves a node for whoever asks for one by its kind: it finds a
// candidate, and in one transaction makes the allocation and sets the node's
// instance_uuid.
//
// It may import central/store and central/dispatch. Invariants: a node serves one
// allocation at most, and an allocation one node, also when many replicas of central
// reserve at once: who comes second finds the node's row changed and looks for another.
// There is no allocation half done: its row is written together with its outcome, so a
// replica that dies leaves nothing behind that another would have to finish.
package allocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Allocator makes allocations. It is safe for concurrent use.
type Allocator struct {
	Store *store.Store
	// From says where among the nodes, in the order of their UUIDs, to look first: two
	// who look at once had better begin at different nodes. nil: anywhere.
	From func() string
}

// A search looks at so many nodes at a time, and gives up after so many times that
// others took them all.
const (
	batch  = 64
	rounds = 16
)

// Allocate writes a with a node that suits it, or with the error that says why there is
// none. It fails, and writes nothing, when a's UUID or name is taken.
func (l *Allocator) Allocate(ctx context.Context, a *store.Allocation) error {
	a.Traits = slices.Compact(slices.Sorted(slices.Values(a.Traits)))
	q := store.CandidateQuery{ResourceClass: a.ResourceClass, Project: a.Owner, UUIDs: a.Candidates, Traits: a.Traits, Limit: batch}
	if a.Name != "" { // the node of the same name comes first
		q.Name = a.Name
		done, _, err := l.tryAll(ctx, a, q)
		if done || err != nil {
			return err
		}
		q.Name = ""
	}
	tried := 0
	for range rounds {
		q.From = l.from()
		done, n, err := l.tryAll(ctx, a, q)
		if done || err != nil {
			return err
		}
		if tried += n; n == 0 {
			break
		}
	}
	why, err := l.whyNone(ctx, a, q, tried)
	if err != nil {
		return err
	}
	a.Node, a.State, a.LastError = "", store.AllocationError, fmt.Sprintf("Failed to process allocation %s: %s.", a.UUID, why)
	return l.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.InsertAllocation(ctx, a) })
}

func (l *Allocator) from() string {
	if l.From != nil {
		return l.From()
	}
	return uuid.NewString()
}

// tryAll tries the nodes that q finds and returns how many these were.
func (l *Allocator) tryAll(ctx context.Context, a *store.Allocation, q store.CandidateQuery) (done bool, n int, err error) {
	list, err := l.Store.Candidates(ctx, q)
	if err != nil {
		return false, 0, err
	}
	for _, id := range list {
		err := l.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return reserve(ctx, tx, a, id) })
		if !errors.Is(err, errTaken) {
			return err == nil, len(list), err
		}
	}
	return false, len(list), nil
}

// errTaken: the node does not suit any more.
var errTaken = errors.New("the node is not to be had any more")

func reserve(ctx context.Context, tx *store.Tx, a *store.Allocation, id string) error {
	n, err := tx.Node(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return errTaken
	}
	if err != nil {
		return err
	}
	if !suits(n, a) {
		return errTaken
	}
	err = take(ctx, tx, a, n)
	if e, ok := errors.AsType[*store.DuplicateError](err); ok && e.Field == "node" {
		return errTaken
	}
	return err
}

// suits reports whether the node may be taken for a: what Candidates looked for,
// looked at again with the row held.
func suits(n *store.Node, a *store.Allocation) bool {
	return n.ProvisionState == provision.Available && n.InstanceUUID == "" && !n.Maintenance && !n.Retired && n.PowerState != "" &&
		n.ResourceClass == a.ResourceClass && hasAll(n.Traits, a.Traits) &&
		(a.Owner == "" || n.Owner == a.Owner || n.Lessee == a.Owner) &&
		(len(a.Candidates) == 0 || slices.Contains(a.Candidates, n.UUID))
}

func hasAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(t string) bool { return !slices.Contains(have, t) })
}

// take writes the allocation and the node that it holds.
func take(ctx context.Context, tx *store.Tx, a *store.Allocation, n *store.Node) error {
	a.Node, a.State, a.LastError = n.UUID, store.AllocationActive, ""
	if err := tx.InsertAllocation(ctx, a); err != nil {
		return err
	}
	n.InstanceUUID, n.AllocationUUID = a.UUID, a.UUID
	info := maps.Clone(n.InstanceInfo)
	if info == nil {
		info = map[string]any{}
	}
	traits := make([]any, len(a.Traits))
	for i, t := range a.Traits {
		traits[i] = t
	}
	info["traits"] = traits
	n.InstanceInfo = info
	if err := tx.UpdateNode(ctx, n); err != nil {
		return err
	}
	return tx.Tell(ctx, dispatch.Dirty(n))
}

// whyNone says why no node was found.
func (l *Allocator) whyNone(ctx context.Context, a *store.Allocation, q store.CandidateQuery, tried int) (string, error) {
	if tried > 0 {
		return "all nodes were filtered out during reservation", nil // others were faster
	}
	if len(a.Traits) > 0 {
		q.Traits, q.From, q.Limit = nil, "", 1
		list, err := l.Store.Candidates(ctx, q)
		if err != nil {
			return "", err
		}
		if len(list) > 0 {
			return "no suitable nodes have the requested traits " + strings.Join(a.Traits, ", "), nil
		}
	}
	if len(a.Candidates) > 0 {
		return "none of the requested nodes are available and match the resource class " + a.ResourceClass, nil
	}
	return "no available nodes match the resource class " + a.ResourceClass, nil
}

// Backfill writes a for a node that is in use already, without an allocation. It
// refuses a node that does not suit, and then writes nothing.
func Backfill(ctx context.Context, tx *store.Tx, a *store.Allocation, n *store.Node) error {
	a.Traits = slices.Compact(slices.Sorted(slices.Values(a.Traits)))
	var why []string
	if n.ProvisionState != provision.Active {
		why = append(why, fmt.Sprintf("Node must be in the \"active\" state, but the current state is %q", n.ProvisionState))
	}
	if n.ResourceClass != a.ResourceClass {
		why = append(why, fmt.Sprintf("Resource class %s does not match the requested resource class %s", cmp.Or(n.ResourceClass, "None"), a.ResourceClass))
	}
	if !hasAll(n.Traits, a.Traits) {
		why = append(why, fmt.Sprintf("List of traits %v does not match the requested traits %v", n.Traits, a.Traits))
	}
	if len(a.Candidates) > 0 && !slices.Contains(a.Candidates, n.UUID) {
		why = append(why, fmt.Sprintf("Candidate nodes must be empty or contain the target node, but got %v", a.Candidates))
	}
	switch {
	case why != nil:
		return refuse("Failed to process allocation %s: Cannot backfill an allocation for node %s: %s.", a.UUID, n.UUID, strings.Join(why, "; "))
	case n.InstanceUUID != "" && n.InstanceUUID != a.UUID:
		return refuse("Node %s is associated with instance %s.", n.UUID, n.InstanceUUID)
	}
	err := take(ctx, tx, a, n)
	if e, ok := errors.AsType[*store.DuplicateError](err); ok && e.Field == "instance_uuid" {
		return refuse("Instance %s is already associated with a node, it cannot be associated with this other node %s.", a.UUID, n.UUID)
	}
	return err
}

func refuse(format string, args ...any) error {
	return &dispatch.Refusal{Status: http.StatusConflict, Text: fmt.Sprintf(format, args...)}
}
