package allocation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/allocation"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
)

// free returns a node that an allocation of class "small" may take.
func free(name string) *store.Node {
	n := storetest.NewNode(name)
	n.ResourceClass, n.PowerState = "small", "power off"
	return n
}

// TestManyAtOnce lets 200 clients ask three replicas for 120 nodes at the same time:
// each node serves one of them, and those who come too late are told so.
func TestManyAtOnce(t *testing.T) {
	const clients, nodes = 200, 120
	address := postgres.Database(t)
	var replicas []*store.Store
	for range 3 {
		replicas = append(replicas, storetest.Open(t, address))
	}
	var fleet []*store.Node
	for i := range nodes {
		fleet = append(fleet, free(fmt.Sprint("n", i)))
	}
	storetest.Insert(t, replicas[0], fleet...)
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for i := range clients {
		wg.Go(func() {
			l := &allocation.Allocator{Store: replicas[i%len(replicas)]}
			errs <- l.Allocate(t.Context(), &store.Allocation{UUID: uuid.NewString(), ResourceClass: "small"})
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	list, err := replicas[1].Allocations(t.Context(), store.AllocationQuery{})
	if err != nil || len(list) != clients {
		t.Fatalf("%d allocations, error %v, want %d", len(list), err, clients)
	}
	holder := map[string]string{}
	for _, a := range list {
		switch a.State {
		case store.AllocationActive:
			if holder[a.Node] != "" {
				t.Errorf("node %s serves allocations %s and %s", a.Node, holder[a.Node], a.UUID)
			}
			holder[a.Node] = a.UUID
		case store.AllocationError:
			if a.Node != "" || a.LastError == "" {
				t.Errorf("a failed allocation: %+v", a)
			}
		default:
			t.Errorf("an allocation is left in state %q", a.State)
		}
	}
	if len(holder) != nodes {
		t.Errorf("%d nodes are allocated, want all %d", len(holder), nodes)
	}
	for _, n := range fleet {
		got, err := replicas[2].Node(t.Context(), n.UUID)
		if err != nil || got.InstanceUUID == "" || got.InstanceUUID != holder[n.UUID] || got.AllocationUUID != holder[n.UUID] {
			t.Errorf("node %s: instance %q, allocation %q, error %v, want %s", n.UUID, got.InstanceUUID, got.AllocationUUID, err, holder[n.UUID])
		}
	}
}

// TestWhatSuits holds which nodes an allocation may get, on both engines.
func TestWhatSuits(t *testing.T) {
	engines := map[string]func(testing.TB) string{"sqlite": storetest.SQLite, "postgresql": postgres.Database}
	for engine, address := range engines {
		t.Run(engine, func(t *testing.T) { whatSuits(t, storetest.Open(t, address(t))) })
	}
}

func whatSuits(t *testing.T, s *store.Store) {
	good := free("good")
	good.Traits = []string{"CUSTOM_A", "CUSTOM_B"}
	good.Owner = "p1"
	for name, spoil := range map[string]func(*store.Node){
		"large":    func(n *store.Node) { n.ResourceClass = "large" },
		"busy":     func(n *store.Node) { n.AcceptedState = provision.Deploying },
		"used":     func(n *store.Node) { n.InstanceUUID = uuid.NewString() },
		"dark":     func(n *store.Node) { n.PowerState = "" },
		"repaired": func(n *store.Node) { n.SetMaintenance(true, "") },
		"old":      func(n *store.Node) { n.Retired = true },
	} {
		n := free(name)
		spoil(n)
		storetest.Insert(t, s, n)
	}
	l := &allocation.Allocator{Store: s}
	ask := func(a store.Allocation) *store.Allocation {
		t.Helper()
		a.UUID = uuid.NewString()
		if err := l.Allocate(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
		return &a
	}
	refused := func(text string, a store.Allocation) {
		t.Helper()
		got := ask(a)
		if got.State != store.AllocationError || !strings.Contains(got.LastError, "Failed to process allocation "+got.UUID) || !strings.Contains(got.LastError, text) {
			t.Errorf("allocation %+v, want an error with %q", got, text)
		}
	}
	refused("no available nodes match the resource class small", store.Allocation{ResourceClass: "small"})
	storetest.Insert(t, s, good)
	refused("no suitable nodes have the requested traits CUSTOM_C", store.Allocation{ResourceClass: "small", Traits: []string{"CUSTOM_C"}})
	refused("no available nodes", store.Allocation{ResourceClass: "small", Owner: "p2"})
	refused("none of the requested nodes", store.Allocation{ResourceClass: "small", Candidates: []string{uuid.NewString()}})
	got := ask(store.Allocation{ResourceClass: "small", Owner: "p1", Traits: []string{"CUSTOM_B", "CUSTOM_A"}, Candidates: []string{good.UUID}})
	if got.State != store.AllocationActive || got.Node != good.UUID {
		t.Fatalf("allocation %+v, want node %s", got, good.UUID)
	}
	n, err := s.Node(t.Context(), "good")
	if err != nil || n.InstanceUUID != got.UUID || len(n.InstanceInfo["traits"].([]any)) != 2 {
		t.Errorf("node %+v, error %v", n, err)
	}
	// The name of a node comes first, whatever the order is.
	var fleet []*store.Node
	for i := range 20 {
		fleet = append(fleet, free(fmt.Sprint("web", i)))
	}
	storetest.Insert(t, s, fleet...)
	if got := ask(store.Allocation{ResourceClass: "small", Name: "web13"}); got.Node != fleet[13].UUID {
		t.Errorf("allocation web13 got node %s", got.Node)
	}
	again := &store.Allocation{UUID: uuid.NewString(), ResourceClass: "small", Name: "web13"}
	err = l.Allocate(t.Context(), again)
	if e, ok := errors.AsType[*store.DuplicateError](err); !ok || e.Field != "name" {
		t.Errorf("a name twice: %v", err)
	}
}

// TestRemove holds when a node may be freed.
func TestRemove(t *testing.T) {
	s := storetest.Open(t, storetest.SQLite(t))
	n := free("n")
	storetest.Insert(t, s, n)
	a := &store.Allocation{UUID: uuid.NewString(), ResourceClass: "small"}
	if err := (&allocation.Allocator{Store: s}).Allocate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	remove := func(change func(*store.Node)) error {
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, "n")
			if err != nil {
				return err
			}
			change(n)
			if err := tx.UpdateNode(ctx, n); err != nil {
				return err
			}
			return allocation.Remove(ctx, tx, a)
		})
	}
	for state, text := range map[provision.State]string{provision.Active: "is active", provision.Deploying: "updates are not allowed"} {
		err := remove(func(n *store.Node) { n.Accept(state, provision.Active, n.CreatedAt) })
		if state == provision.Active {
			err = remove(func(n *store.Node) { n.Accept(state, provision.NoState, n.CreatedAt) })
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("remove in %s: %v, want %q", state, err, text)
		}
	}
	if err := remove(func(n *store.Node) {
		n.Accept(provision.Active, provision.NoState, n.CreatedAt)
		n.SetMaintenance(true, "broken")
	}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Node(t.Context(), "n")
	if _, traits := got.InstanceInfo["traits"]; err != nil || got.InstanceUUID != "" || got.AllocationUUID != "" || traits {
		t.Errorf("freed node %+v, error %v", got, err)
	}
	if _, err := s.Allocation(t.Context(), a.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed allocation: %v", err)
	}
}
