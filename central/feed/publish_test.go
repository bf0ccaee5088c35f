package feed_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// What a replica has written that is gone is published by another.
func TestPublishedByAnother(t *testing.T) {
	address := storetest.SQLite(t)
	insert(t, storetest.Open(t, address), 3)
	published := make(chan int64, 10)
	run(t, feed.Config{Store: storetest.Open(t, address), Publish: publishTo(published)})
	for _, want := range []int64{2, 4, 6} {
		expectNext(t, published, want)
	}
}

// Who is the first to publish begins with what has happened since about then.
func TestPublishedFromNowOn(t *testing.T) {
	address := storetest.SQLite(t)
	db := storetest.Open(t, address)
	quiet := feed.New(feed.Config{Store: db, Log: slog.New(slog.DiscardHandler)})
	insert(t, db, 3)
	for range 2 { // only what was there the last time is left to nobody
		if err := quiet.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		insert(t, db, 1)
	}
	published := make(chan int64, 10)
	run(t, feed.Config{Store: db, Publish: publishTo(published)})
	for _, want := range []int64{8, 10} {
		expectNext(t, published, want)
	}
}

func publishTo(published chan<- int64) func(context.Context, []*store.Change) {
	return func(_ context.Context, list []*store.Change) {
		for _, c := range list {
			published <- c.Seq
		}
	}
}

func expectNext(t *testing.T, published <-chan int64, want int64) {
	t.Helper()
	select {
	case got := <-published:
		if got != want {
			t.Errorf("published change %d, want %d", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("change %d was not published", want)
	}
}
