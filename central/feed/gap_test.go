package feed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// A replica that was cut off from the database for so long that others have removed what it
// had not read yet tells those who follow, who begin anew.
func TestRemovedWhileCutOff(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	f := feed.New(feed.Config{Store: db})
	w := follow(t, f, -1)
	if err := f.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	insert(t, db, 3) // two numbers each
	pruned := w.Seq() + 4
	if err := db.PruneChanges(t.Context(), pruned); err != nil {
		t.Fatal(err)
	}
	if err := f.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if list, err := w.Next(ctx); !errors.Is(err, feed.ErrGone) {
		t.Errorf("got %d changes and %v, want that some are gone", len(list), err)
	}
	again := follow(t, f, pruned)
	insert(t, db, 1)
	if err := f.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	collect(t, again, 2)
}
