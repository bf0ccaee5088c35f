package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// steal takes the next events of the consumer, as a replica does that then dies, or
// to which the link breaks, before it has applied them.
func (f *fixture) steal(n int) error {
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
	defer cancel()
	consumer, err := f.site.Events.Consumer(ctx, bus.IngestConsumer)
	if err != nil {
		return err
	}
	if err := f.site.Events.UnpinConsumer(ctx, bus.IngestConsumer, "central"); err != nil {
		return err
	}
	batch, err := consumer.Fetch(n, jetstream.FetchPriorityGroup("central"), jetstream.FetchMaxWait(10*time.Second))
	if err != nil {
		return err
	}
	got := 0
	for range batch.Messages() {
		got++
	}
	if got != n {
		return fmt.Errorf("took %d events, want %d: %v", got, n, batch.Error())
	}
	return f.site.Events.UnpinConsumer(ctx, bus.IngestConsumer, "central")
}

// stopped is a node whose first phase has been applied by a replica that then ended,
// with phases up to n queued, all but the last of which somebody took.
func (f *fixture) stopped(n uint64) *store.Work {
	f.Helper()
	_, w := f.deploy("n")
	stop := f.follow()
	f.phases(w, 1, 1)
	f.ordered(w, 1)
	stop()
	f.phases(w, 2, n)
	if err := f.steal(int(n) - 2); err != nil {
		f.Fatal(err)
	}
	return w
}

func (f *fixture) phases(w *store.Work, from, to uint64) {
	f.Helper()
	for seq := from; seq <= to; seq++ {
		e := about(w, work.PhaseEntered, seq)
		e.Phase = fmt.Sprintf("phase %d", seq)
		f.publish(e)
	}
}

// ordered holds that the node's history is phases 1 to n in order, before the
// consumer would deliver a lost event again.
func (f *fixture) ordered(w *store.Work, n int) {
	f.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		lines, err := f.store.History(f.Context(), store.HistoryQuery{Node: w.Node})
		if err != nil {
			f.Fatal(err)
		}
		for i, h := range lines {
			if want := fmt.Sprintf("phase %d", i+1); h.Phase != want {
				f.Fatalf("line %d of the history is %q, want %q", i+1, h.Phase, want)
			}
		}
		if len(lines) == n {
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("%d lines of history, want %d", len(lines), n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// What somebody took and never applied does not wait until it is delivered again, and
// nothing is applied before it.
func TestEventsThatWereLostOnTheirWay(t *testing.T) {
	t.Parallel()
	t.Run("before this replica began", func(t *testing.T) {
		f := newFixture(t)
		w := f.stopped(7)
		f.follow()
		f.phases(w, 8, 9)
		f.ordered(w, 9)
	})
	t.Run("and nothing came after", func(t *testing.T) {
		f := newFixture(t)
		w := f.stopped(4)
		if err := f.steal(1); err != nil {
			t.Fatal(err)
		}
		f.follow()
		f.ordered(w, 4)
	})
	t.Run("while it reads", func(t *testing.T) {
		f := newFixture(t)
		_, w := f.deploy("n")
		f.follow()
		f.phases(w, 1, 3)
		f.ordered(w, 3)
		f.phases(w, 4, 4)
		f.ordered(w, 4)
		stolen := make(chan error, 1)
		go func() { stolen <- f.steal(2) }()
		f.waiting()
		f.phases(w, 5, 6)
		if err := <-stolen; err != nil {
			t.Fatal(err)
		}
		f.phases(w, 7, 8)
		f.ordered(w, 8)
	})
}

// Events that the stream has dropped, by age or by hand, hold up nothing.
func TestEventsThatAreGone(t *testing.T) {
	f := newFixture(t)
	w := f.stopped(4)
	if err := f.site.Events.Purge(t.Context(), jetstream.WithPurgeSequence(3)); err != nil {
		t.Fatal(err)
	}
	f.follow()
	deadline := time.Now().Add(20 * time.Second)
	for f.node(w.Node).ObservedSeq != 4 {
		if time.Now().After(deadline) {
			t.Fatal("what is left was not applied")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// waiting waits until two pull requests wait at the consumer: the replica's, and that
// of steal.
func (f *fixture) waiting() {
	f.Helper()
	consumer, err := f.site.Events.Consumer(f.Context(), bus.IngestConsumer)
	if err != nil {
		f.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		info, err := consumer.Info(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		if info.NumWaiting == 2 {
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("%d pull requests wait", info.NumWaiting)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
