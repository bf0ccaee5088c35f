package feed_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// What a replica has written that is gone is published by another.
func TestPublishedByAnother(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	address := storetest.SQLite(t)
	db := storetest.Open(t, address)
	quiet := feed.New(feed.Config{Store: db, Log: slog.New(slog.DiscardHandler), Patience: time.Nanosecond})
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

// What a replica had claimed that died is published by another one, which waits for it first; and what
// came later, behind that.
func TestPublishedForTheDead(t *testing.T) {
	t.Parallel()
	address := storetest.SQLite(t)
	dead := storetest.Open(t, address)
	insert(t, dead, 3)
	at, err := dead.Publication(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if list, _, err := dead.ClaimChanges(t.Context(), at, 2); err != nil || len(list) != 2 {
		t.Fatalf("claimed %d changes, error %v", len(list), err)
	}
	const patience = 500 * time.Millisecond
	begun, published := time.Now(), make(chan int64, 10)
	run(t, feed.Config{Store: storetest.Open(t, address), Publish: publishTo(published), Patience: patience})
	for _, want := range []int64{2, 4, 6} {
		expectNext(t, published, want)
		if waited := time.Since(begun); waited < patience {
			t.Errorf("change %d was published after %s, which were another's for %s", want, waited, patience)
		}
	}
}

// A replica that is slow is taken for dead by another, which dies with the claim in its hands. What the first one had published by
// then it does not publish again, and it knows so after its patience.
func TestPublishedByTheSlow(t *testing.T) {
	t.Parallel()
	address := storetest.SQLite(t)
	db, other := storetest.Open(t, address), storetest.Open(t, address)
	insert(t, db, 3)
	published, calls := make(chan int64, 10), 0
	to := publishTo(published)
	run(t, feed.Config{Store: db, Patience: 500 * time.Millisecond, Publish: func(_ context.Context, list []*store.Change) error {
		ctx := t.Context() // neither the other's claim nor what is sent already ends with the first one's time
		if calls++; calls == 1 {
			at, err := other.Publication(ctx)
			if err != nil || !at.Open() {
				t.Errorf("the claim of who publishes is %+v, error %v", at, err)
			}
			insert(t, other, 1)
			if taken, _, err := other.ClaimChanges(ctx, at, 10); err != nil || len(taken) != 4 {
				t.Errorf("the other one has %d changes, error %v", len(taken), err)
			}
		}
		return to(ctx, list)
	}})
	for _, want := range []int64{2, 4, 6, 8} {
		expectNext(t, published, want)
	}
	insert(t, db, 1)
	expectNext(t, published, 10)
}

// A claim of changes that are not kept any more stops nobody.
func TestClaimOfWhatIsGone(t *testing.T) {
	t.Parallel()
	address := storetest.SQLite(t)
	db := storetest.Open(t, address)
	insert(t, db, 3)
	at, err := db.Publication(t.Context())
	if err == nil {
		_, _, err = db.ClaimChanges(t.Context(), at, 3)
	}
	if err == nil {
		err = db.PruneChanges(t.Context(), 6)
	}
	if err != nil {
		t.Fatal(err)
	}
	published := make(chan int64, 10)
	run(t, feed.Config{Store: db, Publish: publishTo(published), Patience: 500 * time.Millisecond})
	until(t, "the claim is closed", func() bool {
		at, err := db.Publication(t.Context())
		return err == nil && !at.Open()
	})
	insert(t, db, 1)
	expectNext(t, published, 8)
}

// What could not be published is published later, from the first on that was not, and in order.
func TestPublishedAgain(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	insert(t, db, 120)
	published, calls := make(chan int64, 1000), 0
	to := publishTo(published)
	run(t, feed.Config{Store: db, Publish: func(ctx context.Context, list []*store.Change) error {
		if calls++; calls == 2 { // the first has brought what it had
			return errors.New("the bus is away")
		}
		return to(ctx, list)
	}})
	for n := range int64(120) {
		expectNext(t, published, 2*(n+1))
	}
}

// A replica that is told to end leaves what it has not published to others, at once.
func TestEndsWhilePublishing(t *testing.T) {
	t.Parallel()
	address := storetest.SQLite(t)
	insert(t, storetest.Open(t, address), 120)
	first, began := make(chan int64, 1000), make(chan struct{}, 10)
	to := publishTo(first)
	_, stop := run(t, feed.Config{Store: storetest.Open(t, address), Patience: time.Hour, Publish: func(ctx context.Context, list []*store.Change) error {
		if len(first) == 0 {
			return to(ctx, list)
		}
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}})
	<-began
	stop()
	second := make(chan int64, 1000)
	run(t, feed.Config{Store: storetest.Open(t, address), Patience: time.Hour, Publish: publishTo(second)})
	for n := range int64(120) {
		from := first
		if len(first) == 0 {
			from = second
		}
		expectNext(t, from, 2*(n+1))
	}
}

func publishTo(published chan<- int64) func(context.Context, []*store.Change) error {
	return func(_ context.Context, list []*store.Change) error {
		for _, c := range list {
			published <- c.Seq
		}
		return nil
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
