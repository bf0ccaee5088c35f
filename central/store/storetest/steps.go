package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
)

func stepLists(t *testing.T, s *store.Store) {
	steps := []store.ListedStep{{Interface: "raid", Step: "create_configuration", Args: map[string]any{"level": "1"}, Rank: 10}}
	var names []string
	for _, name := range []string{"CUSTOM_B", "CUSTOM_A", "CUSTOM_C"} {
		d := &store.DeployTemplate{UUID: uuid.NewString(), Name: name, Steps: steps}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.InsertDeployTemplate(ctx, d) })
		b := &store.Runbook{UUID: uuid.NewString(), Name: name, Steps: steps, Traits: []string{"CUSTOM_X"}, Owner: name}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.InsertRunbook(ctx, b) })
		wantDuplicate(t, s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertDeployTemplate(ctx, &store.DeployTemplate{UUID: uuid.NewString(), Name: name})
		}), "name", name)
		wantDuplicate(t, s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertRunbook(ctx, &store.Runbook{UUID: b.UUID, Name: "other"})
		}), "uuid", b.UUID)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.DeployTemplatesByNames(ctx, []string{"CUSTOM_C", "CUSTOM_NONE", "CUSTOM_A"})
		names = nil
		for _, d := range list {
			names = append(names, d.Name)
			expect(t, "steps", len(d.Steps), 1)
			expect(t, "priority", d.Steps[0].Rank, 10)
		}
		return err
	})
	if len(names) != 2 || names[0] != "CUSTOM_A" || names[1] != "CUSTOM_C" {
		t.Errorf("templates by names: %v, want A and C in order", names)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		b, err := tx.Runbook(ctx, "CUSTOM_B")
		if err != nil {
			return err
		}
		b.Public = true
		return tx.UpdateRunbook(ctx, b)
	})
	list, err := s.Runbooks(t.Context(), store.RunbookQuery{Project: "CUSTOM_A", Page: store.Page{SortKey: "name", Desc: true}})
	if err != nil || len(list) != 2 || list[0].Name != "CUSTOM_B" || list[1].Traits[0] != "CUSTOM_X" {
		t.Errorf("a project's runbooks: %v, error %v, want the public B and its own A", list, err)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteRunbook(ctx, list[0]) })
	if _, err := s.Runbook(t.Context(), "CUSTOM_B"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted runbook: %v, want ErrNotFound", err)
	}
}
