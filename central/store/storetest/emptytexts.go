package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// emptyTexts: which texts are empty and not null is kept with each kind of row, and goes with a
// write that changes nothing else.
func emptyTexts(t *testing.T, s *store.Store) {
	n := NewNode("n")
	n.EmptyTexts = "owner,shard"
	Insert(t, s, n)
	p := &store.Port{UUID: uuid.NewString(), Node: n.UUID, Address: "52:54:00:aa:bb:01"}
	g := &store.Portgroup{UUID: uuid.NewString(), Node: n.UUID}
	c := &store.Chassis{UUID: uuid.NewString()}
	a := &store.Allocation{UUID: uuid.NewString(), State: "error"}
	b := &store.Runbook{UUID: uuid.NewString(), Name: "CUSTOM_B"}
	r := &store.InspectionRule{UUID: uuid.NewString(), Phase: "main"}
	kept := []*store.EmptyTexts{&p.EmptyTexts, &g.EmptyTexts, &c.EmptyTexts, &a.EmptyTexts, &b.EmptyTexts, &r.EmptyTexts}
	for _, e := range kept {
		e.Set("description", true)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertPort(ctx, p), tx.InsertPortgroup(ctx, g), tx.InsertChassis(ctx, c), tx.InsertAllocation(ctx, a),
			tx.InsertRunbook(ctx, b), tx.InsertInspectionRule(ctx, r))
	})
	have := func(want store.EmptyTexts) {
		t.Helper()
		port, err1 := s.Port(t.Context(), p.UUID)
		group, err2 := s.Portgroup(t.Context(), g.UUID)
		box, err3 := s.Chassis(t.Context(), c.UUID)
		alloc, err4 := s.Allocation(t.Context(), a.UUID)
		book, err5 := s.Runbook(t.Context(), b.UUID)
		rule, err6 := s.InspectionRule(t.Context(), r.UUID)
		if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
			t.Fatal(err)
		}
		for i, got := range []store.EmptyTexts{port.EmptyTexts, group.EmptyTexts, box.EmptyTexts, alloc.EmptyTexts, book.EmptyTexts, rule.EmptyTexts} {
			if got != want {
				t.Errorf("row %d has the empty texts %q, want %q", i, got, want)
			}
		}
	}
	have("description")
	for _, e := range kept {
		e.Set("description", false)
		e.Set("name", true)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.UpdatePort(ctx, p), tx.UpdatePortgroup(ctx, g), tx.UpdateChassis(ctx, c), tx.UpdateAllocation(ctx, a),
			tx.UpdateRunbook(ctx, b), tx.UpdateInspectionRule(ctx, r))
	})
	have("name")

	expect(t, "empty texts of a new node", read(t, s, "n").EmptyTexts, "owner,shard")
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, "n")
		if err != nil {
			return err
		}
		n.EmptyTexts.Set("owner", false)
		n.EmptyTexts.Set("maintenance_reason", true)
		n.AcceptedState = provision.Enroll
		return tx.UpdateNode(ctx, n)
	})
	expect(t, "empty texts of a changed node", read(t, s, "n").EmptyTexts, "shard,maintenance_reason")
}
