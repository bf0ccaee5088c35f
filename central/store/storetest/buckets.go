package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

func buckets(t *testing.T, s *store.Store) {
	first := store.Bucket{Site: "east", Name: "WORK", Created: time.Unix(1700000000, 123456789).UTC(), First: 3, Last: 1 << 52, Messages: 7}
	other := store.Bucket{Site: "west", Name: "WORK", Created: time.Unix(1, 0).UTC()}
	set := func(b store.Bucket) {
		t.Helper()
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.SetBucket(ctx, &b) })
	}
	get := func(site, name string) store.Bucket {
		t.Helper()
		b, err := s.Bucket(t.Context(), site, name)
		if err != nil {
			t.Fatal(err)
		}
		return *b
	}
	_, err := s.Bucket(t.Context(), "east", "WORK")
	expect(t, "none yet", errors.Is(err, store.ErrNotFound), true)
	set(first)
	set(other)
	expect(t, "as it was written", get("east", "WORK"), first)
	first.Last++
	first.Messages = 0
	set(first)
	expect(t, "as it was written last", get("east", "WORK"), first)
	expect(t, "another site's", get("west", "WORK"), other)
}
