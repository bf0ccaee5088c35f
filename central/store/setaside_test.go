package store_test

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// A rack reports the end of a work again and again. Once the event is kept, its repeats are, too, also
// when there is no room for others: they would hold up their site.
func TestRepeatOfWhatIsSetAsideNeedsNoRoom(t *testing.T) {
	db := storetest.Open(t, storetest.SQLite(t))
	keep := func(body string) (kept bool) {
		t.Helper()
		if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) (err error) {
			kept, err = tx.SetAside(ctx, &store.SetAside{Site: "east", Reason: "refused", Body: []byte(body)}, 2)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return kept
	}
	for _, c := range []struct {
		body string
		kept bool
	}{{"a", true}, {"b", true}, {"c", false}, {"a", true}, {"b", true}, {"c", false}} {
		if got := keep(c.body); got != c.kept {
			t.Errorf("event %s: kept %v, want %v", c.body, got, c.kept)
		}
	}
}
