package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// allChanges returns every change as "N resource.action.phases".
func allChanges(t *testing.T, s *store.Store) []string {
	t.Helper()
	numberAll(t, s)
	list, err := s.Changes(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprintf("%d %s.%s.%s", c.Seq, c.Resource, c.Action, c.Phases))
	}
	return out
}

// changes: each write notes what it changed, once, and numbers have no gaps.
func changes(t *testing.T, s *store.Store) {
	told := 0
	cancel := s.WatchChanges(func() { told++ })
	n := NewNode("n")
	Insert(t, s, n)
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.Node(ctx, "n")
		if err != nil {
			return err
		}
		row.Accept(provision.Deploying, provision.Active, time.Now())
		return tx.UpdateNode(ctx, row)
	})
	if err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.SetTraits(ctx, n.UUID, []string{"CUSTOM_A"}), errRollback)
	}); !errors.Is(err, errRollback) {
		t.Fatal(err)
	}
	p := &store.Port{UUID: uuid.NewString(), Node: n.UUID, Address: "52:54:00:00:00:01"}
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.InsertPort(ctx, p) })
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		seen, err := tx.Observed(ctx, []string{n.UUID})
		if err != nil {
			return err
		}
		row := seen[n.UUID]
		row.ObservedSeq++ // nothing that anybody sees
		return tx.SaveObserved(ctx, []*store.Node{row})
	})
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		seen, err := tx.Observed(ctx, []string{n.UUID})
		if err != nil {
			return err
		}
		row := seen[n.UUID]
		row.PowerState = "power on"
		return tx.SaveObserved(ctx, []*store.Node{row})
	})
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.Node(ctx, "n")
		if err != nil {
			return err
		}
		row.AcceptPower("power off", time.Now())
		return tx.UpdateNode(ctx, row)
	})
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		seen, err := tx.Observed(ctx, []string{n.UUID})
		if err != nil {
			return err
		}
		row := seen[n.UUID]
		row.PowerState, row.TargetPowerState, row.PowerObservedGeneration = "power off", "", row.PowerGeneration
		return tx.SaveObserved(ctx, []*store.Node{row})
	})
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Node(ctx, n.UUID); err != nil {
			return err
		}
		return tx.DeleteNode(ctx, n.UUID)
	})
	cancel()
	want := []string{"2 node.create.start,end", "3 node.provision_set.start", "5 port.create.start,end",
		"6 node.power_state_corrected.success", "7 node.power_set.start", "8 node.power_set.end", "10 node.delete.start,end"}
	if got := allChanges(t, s); !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
	if told != len(want) {
		t.Errorf("told of %d transactions, want %d", told, len(want))
	}
	if err := s.PruneChanges(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	list, err := s.Changes(t.Context(), 0, 100)
	if err != nil || len(list) != 2 || list[1].Facts["name"] != "n" || list[1].Node != n.UUID || list[1].At.IsZero() {
		t.Errorf("after pruning: %d changes, error %v", len(list), err)
	}
	if r, err := s.ChangeRange(t.Context()); err != nil || r != (store.ChangeRange{Pruned: 7, Newest: 10}) {
		t.Errorf("range %+v, error %v", r, err)
	}
}

var errRollback = errors.New("rolled back")

// audited expects lines of these request ids, one after the other.
func audited(t *testing.T, s *store.Store, q store.AuditQuery, want string) {
	t.Helper()
	got := ""
	list, err := s.Audit(t.Context(), q)
	for _, a := range list {
		got += a.RequestID
	}
	if err != nil || got != want {
		t.Errorf("%+v: %q, error %v, want %q", q, got, err, want)
	}
}

// audit: a line is written with the transaction that it is about, or not at all.
func audit(t *testing.T, s *store.Store) {
	n := NewNode("n")
	cause := &store.Cause{Audit: &store.Audit{RequestID: "req-1", User: "kim", Action: "baremetal:node:create", Method: "POST", Path: "nodes",
		Client: "192.0.2.1", Status: 201, Result: store.Accepted}}
	ctx := store.WithCause(t.Context(), cause)
	if err := s.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertNode(ctx, n), errRollback)
	}); !errors.Is(err, errRollback) || cause.Recorded() {
		t.Fatalf("rolled back: error %v, recorded %t", err, cause.Recorded())
	}
	for range 2 { // the second transaction of a request adds no line
		if err := s.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			if cause.Recorded() {
				return tx.SetTraits(ctx, n.UUID, []string{"CUSTOM_A"})
			}
			return tx.InsertNode(ctx, n)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AppendAudit(t.Context(), &store.Audit{RequestID: "req-2", User: "lee", Action: "baremetal:node:delete", Object: "n", Node: n.UUID,
		Status: 403, Result: store.Denied, Error: "no"}); err != nil {
		t.Fatal(err)
	}
	for q, want := range map[store.AuditQuery]string{
		{}: "req-1req-2", {Page: store.Page{Desc: true}}: "req-2req-1", {Page: store.Page{Limit: 1}}: "req-1", {Node: n.UUID}: "req-1req-2",
		{Object: n.UUID}: "req-1", {Object: "n"}: "req-2", {User: "lee"}: "req-2", {Action: "baremetal:node:create"}: "req-1",
		{Result: store.Denied}: "req-2", {RequestID: "req-1"}: "req-1", {Until: time.Now().Add(-time.Hour)}: "", {Since: time.Now().Add(time.Hour)}: "",
	} {
		audited(t, s, q, want)
	}
	a := *cause.Audit
	a.Status, a.Result, a.Error = 500, store.Failed, "late"
	if err := s.CorrectAudit(t.Context(), &a); err != nil {
		t.Fatal(err)
	}
	list, err := s.Audit(t.Context(), store.AuditQuery{Page: store.Page{Limit: 1}})
	if err != nil || len(list) != 1 || list[0].Error != "late" || list[0].Resource != "node" || list[0].Node != n.UUID || list[0].User != "kim" {
		t.Errorf("the first line: %+v, error %v", list, err)
	}
	if _, err := s.Audit(t.Context(), store.AuditQuery{Page: store.Page{Marker: uuid.NewString()}}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a marker of nothing: %v", err)
	}
	// Of one object, whether the line is about its node as well or not.
	if err := s.AppendAudit(t.Context(), &store.Audit{RequestID: "req-3", User: "kim", Object: n.UUID}, &store.Audit{RequestID: "req-4", Object: n.UUID, Node: n.UUID}); err != nil {
		t.Fatal(err)
	}
	for q, want := range map[store.AuditQuery]string{
		{Object: n.UUID}: "req-1req-3req-4", {Object: n.UUID, Page: store.Page{Desc: true, Limit: 2}}: "req-4req-3", {Object: n.UUID, User: "kim"}: "req-1req-3",
		{Object: n.UUID, Node: n.UUID}: "req-1req-4", {Object: n.UUID, Page: store.Page{Marker: list[0].UUID}}: "req-3req-4",
	} {
		audited(t, s, q, want)
	}
	for _, want := range []int64{1, 1, 1, 1, 0} {
		removed, err := s.PruneAudit(t.Context(), time.Now().Add(time.Hour), 1)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "lines removed", removed, want)
	}
}
