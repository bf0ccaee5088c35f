package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Suite is everything that an engine must do. address gives each test a database of its
// own, with or without tables; empty one without.
func Suite(t *testing.T, address, empty func(testing.TB) string) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *store.Store)
	}{
		{"NodeRoundTrip", nodeRoundTrip},
		{"EmptyTexts", emptyTexts},
		{"Duplicates", duplicates},
		{"StaleRevision", staleRevision},
		{"NarrowWrites", narrowWrites},
		{"Effective", effective},
		{"Filters", filters},
		{"Paging", paging},
		{"Ports", ports},
		{"Portgroups", portgroups},
		{"Volumes", volumes},
		{"Shards", shards},
		{"NodesIn", nodesIn},
		{"Traits", traits},
		{"Works", works},
		{"History", history}, {"Story", story},
		{"Inventory", inventory}, {"ConfigDrives", configDrives},
		{"Outbox", outbox},
		{"Observed", observedInBatches},
		{"Hardware", hardwareItems},
		{"Snapshots", snapshots},
		{"DeleteNode", deleteNode},
		{"Rollback", rollback},
		{"Together", together},
		{"TogetherButOne", togetherButOne},
		{"TogetherWritten", togetherWritten},
		{"TogetherAndGone", togetherAndGone},
		{"TogetherReadAhead", togetherReadAhead},
		{"DeployCost", deployCost},
		{"Vault", vault},
		{"GroupKeys", groupKeys},
		{"JoinTokens", joinTokens},
		{"Members", members},
		{"Buckets", buckets},
		{"Conductors", conductors},
		{"Changes", changes},
		{"Claims", claims},
		{"Audit", audit},
		{"StepLists", stepLists},
		{"Prune", prune},
		{"PruneByOrder", pruneByOrder},
		{"Stamps", stamps},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, Open(t, address(t))) })
	}
	t.Run("CloseTwice", func(t *testing.T) { closeTwice(t, address(t)) })
	t.Run("Revisions", func(t *testing.T) { revisions(t, address(t)) })
	t.Run("Numbering", func(t *testing.T) { numbering(t, address) })
	t.Run("Contention", func(t *testing.T) { contention(t, address(t)) })
	t.Run("Migrate", func(t *testing.T) { migrateTogether(t, empty(t)) })
}

// Open opens and migrates a store and closes it when t ends.
func Open(t testing.TB, address string) *store.Store {
	t.Helper()
	return open(t, address, store.Options{})
}

func open(t testing.TB, address string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// NewNode returns a node of the fake hardware type that is available.
func NewNode(name string) *store.Node {
	n := &store.Node{Name: name, Driver: "fake-hardware", AcceptedState: provision.Available,
		DriverInfo: map[string]any{"fake_password": "sealed:v1:x"}}
	n.GiveUUID()
	return n
}

// Insert adds nodes.
func Insert(t testing.TB, s *store.Store, nodes ...*store.Node) {
	t.Helper()
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		for _, n := range nodes {
			if err := tx.InsertNode(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

func update(t testing.TB, s *store.Store, f func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, s *store.Store, ident string) *store.Node {
	t.Helper()
	n, err := s.Node(t.Context(), ident)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func expect[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func numbered(prefix string, n int) []*store.Node {
	list := make([]*store.Node, n)
	for i := range list {
		list[i] = NewNode(fmt.Sprintf("%s%02d", prefix, i))
		list[i].CreatedAt = time.Unix(int64(1000+i/2), 0).UTC() // pairs share a time
	}
	return list
}
