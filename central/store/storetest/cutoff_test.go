package storetest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/central/store"
)

// A transaction whose connection the server ends before it commits has changed nothing,
// although its writes and its commit were sent in one piece: it is run again, and done once.
func TestCutOffBeforeTheCommit(t *testing.T) {
	url := postgres.Database(t)
	s := Open(t, url)
	Insert(t, s, NewNode("n"))
	before := read(t, s, "n")
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context()))
	runs := 0
	err = s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, "n")
		if err != nil {
			return err
		}
		if runs++; runs == 1 {
			var cut int
			const others = "SELECT COUNT(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
			if err := admin.QueryRow(ctx, others).Scan(&cut); err != nil || cut == 0 {
				t.Errorf("cut %d connections: %v", cut, err)
			}
		}
		n.Description += "+"
		return tx.UpdateNode(ctx, n)
	})
	if err != nil {
		t.Fatalf("after the cut: %v", err)
	}
	after := read(t, s, "n")
	expect(t, "runs", runs, 2)
	expect(t, "description", after.Description, before.Description+"+")
	expect(t, "revision", after.Revision, before.Revision+1)
}
