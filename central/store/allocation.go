package store

import (
	"context"
	"fmt"
	"time"
)

// AllocationState says where an allocation stands.
type AllocationState string

// The states of an allocation. No row is in Allocating: the transaction that makes it
// also finds its node. Requests are answered with it.
const (
	Allocating       AllocationState = "allocating"
	AllocationActive AllocationState = "active"
	AllocationError  AllocationState = "error"
)

// Allocation is a row of allocations: a request for a node by its kind, and the node
// that it got.
type Allocation struct {
	UUID          string
	CreatedAt     time.Time
	UpdatedAt     time.Time
	EmptyTexts    EmptyTexts
	Name          string
	Node          string // UUID, empty for none
	State         AllocationState
	LastError     string
	ResourceClass string
	Owner         string // project, empty for none
	Traits        []string
	Candidates    []string // UUIDs of the only nodes to look at; none: all
	Extra         map[string]any
}

// AllocationQuery filters allocations. An empty filter does not filter.
type AllocationQuery struct {
	Page
	Node          string // UUID
	ResourceClass string
	State         string
	Owner         string
}

var allocations = newTable(table[Allocation]{
	name: "allocations", noun: "allocation", idents: []string{"name"},
	columns: []column[Allocation]{
		{"uuid", key, func(a *Allocation) any { return &a.UUID }},
		{"created_at", key, func(a *Allocation) any { return &a.CreatedAt }},
		{"updated_at", intent, func(a *Allocation) any { return &a.UpdatedAt }},
		{"empty_texts", intent, func(a *Allocation) any { return (*string)(&a.EmptyTexts) }},
		{"name", intent, func(a *Allocation) any { return &a.Name }},
		{"node", intent, func(a *Allocation) any { return &a.Node }},
		{"state", intent, func(a *Allocation) any { return &a.State }},
		{"last_error", intent, func(a *Allocation) any { return &a.LastError }},
		{"resource_class", intent, func(a *Allocation) any { return &a.ResourceClass }},
		{"owner", intent, func(a *Allocation) any { return &a.Owner }},
		{"traits", intent, func(a *Allocation) any { return asObject(&a.Traits) }},
		{"candidate_nodes", intent, func(a *Allocation) any { return asObject(&a.Candidates) }},
		{"extra", intent, func(a *Allocation) any { return asObject(&a.Extra) }},
	},
	sorts:   []string{"updated_at", "name", "node", "state", "last_error", "resource_class", "owner"},
	filters: AllocationQuery{Node: "n", ResourceClass: "r", State: "s", Owner: "o"}.narrow,
	stamps:  func(a *Allocation) (created, updated *time.Time) { return &a.CreatedAt, &a.UpdatedAt },
	value: func(a *Allocation, field string) string {
		return map[string]string{"uuid": a.UUID, "name": a.Name, "node": a.Node}[field]
	},
})

func (q AllocationQuery) narrow(f *filter) {
	f.set("t.node", q.Node)
	f.equal("t.resource_class", q.ResourceClass)
	f.equal("t.state", q.State)
	f.set("t.owner", q.Owner)
}

var (
	selectAllocationOf = register(allocations.selectAll + " WHERE t.node = $1")
	_                  = register(selectAllocationOf + " FOR UPDATE OF t")
)

// Allocation returns the allocation with that UUID or name, or ErrNotFound.
func (s *Store) Allocation(ctx context.Context, ident string) (*Allocation, error) {
	return allocations.one(ctx, s.engine, ident, "")
}

// AllocationOf returns the allocation that holds the node with that UUID, or ErrNotFound.
func (s *Store) AllocationOf(ctx context.Context, node string) (*Allocation, error) {
	return allocationOf(ctx, s.engine, node, "")
}

// Allocations returns a page of allocations, with the errors of Nodes.
func (s *Store) Allocations(ctx context.Context, q AllocationQuery) ([]*Allocation, error) {
	var f filter
	q.narrow(&f)
	return allocations.page(ctx, s, f, q.Page)
}

// Allocation returns the allocation for a write that follows, or ErrNotFound.
func (tx *Tx) Allocation(ctx context.Context, ident string) (*Allocation, error) {
	return allocations.one(ctx, tx.conn, ident, tx.s.lockRows("t"))
}

// AllocationOf returns the node's allocation for a write that follows, or ErrNotFound.
func (tx *Tx) AllocationOf(ctx context.Context, node string) (*Allocation, error) {
	return allocationOf(ctx, tx.conn, node, tx.s.lockRows("t"))
}

func allocationOf(ctx context.Context, c conn, node, suffix string) (*Allocation, error) {
	list, err := allocations.read(ctx, c, selectAllocationOf+suffix, node)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("allocation of node %s: %w", node, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// InsertAllocation adds a, or fails with a *DuplicateError (uuid, name, node). An
// allocation is decided when it is added, which clients know as its first update.
func (tx *Tx) InsertAllocation(ctx context.Context, a *Allocation) error {
	if a.CreatedAt.IsZero() {
		a.CreatedAt = tx.s.now()
	}
	a.UpdatedAt = a.CreatedAt
	return allocations.insert(ctx, tx, a)
}

// UpdateAllocation writes all of a, or fails with ErrNotFound or a *DuplicateError.
func (tx *Tx) UpdateAllocation(ctx context.Context, a *Allocation) error {
	return allocations.update(ctx, tx, a)
}

// DeleteAllocation removes a, or fails with ErrNotFound.
func (tx *Tx) DeleteAllocation(ctx context.Context, a *Allocation) error {
	return allocations.remove(ctx, tx, a.UUID)
}
