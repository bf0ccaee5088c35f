package dispatch

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A step on a node's children runs on all of them, however many.
func TestStepsOnManyChildren(t *testing.T) {
	const many = 1001
	b := newBench(t)
	b.put(provision.Manageable, provision.NoState, nil)
	err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		for range many {
			if err := tx.InsertNode(ctx, &store.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ParentNode: node, AcceptedState: provision.Enroll}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = b.verb("clean", func(p *Provision) {
		p.Steps = []work.Step{{Interface: "power", Step: "power_off", OnChildren: true}}
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.Store.Work(t.Context(), b.node().WorkID)
	if err != nil || len(w.Args.Steps) != 1 || len(w.Args.Steps[0].Children) != many {
		t.Errorf("the step is for %d children, want %d, error %v", len(w.Args.Steps[0].Children), many, err)
	}
}
