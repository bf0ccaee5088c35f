package ingest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Whoever waits until a site's reports are applied, in any replica, is told when those
// are that the site held at that moment: not before, and not only when there are no
// others.
func TestApplied(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	within := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return f.ingest.Applied(ctx, f.site)
	}
	if err := within(10 * time.Second); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("before anybody has applied anything: %v", err)
	}
	stop := f.follow()
	n, w := f.deploy("n")
	f.drained()
	if err := within(10 * time.Second); err != nil {
		t.Errorf("nothing was reported: %v", err)
	}
	stop()
	e := about(w, work.StateChanged, 1)
	e.State, e.Target = provision.DeployWait, provision.Active
	f.publish(e)
	if err := within(time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an event that nobody has applied: %v", err)
	}
	f.follow()
	if err := within(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if got := f.node(n.UUID); got.ObservedState != provision.DeployWait {
		t.Errorf("told that all is applied, and the row says %q", got.ObservedState)
	}
	events, err := f.site.JS.Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := within(30 * time.Second); err != nil {
		t.Errorf("the site has lost its events, and with them what there was to wait for: %v", err)
	}
}

// Who waits does not wait for the acknowledgements of the dead: what was delivered to somebody
// who ends before he has applied it, or after that, is applied by who waits, long before
// it would be delivered again, and nothing twice.
func TestAppliedWithoutTheDead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		applied uint64 // events that were, and not acknowledged
	}{{"not applied", 0}, {"applied in part", 2}, {"applied and not acknowledged", 3}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			w := f.stopped(4)
			if err := f.steal(1); err != nil {
				t.Fatal(err)
			}
			err := f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				nodes, err := tx.Observed(ctx, []string{w.Node})
				if err != nil {
					return err
				}
				n := nodes[w.Node]
				n.ObservedSeq += c.applied
				return tx.SaveObserved(ctx, []*store.Node{n})
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for range 2 { // the second time nobody has acknowledged anything either
				if err := f.ingest.Applied(ctx, f.site); err != nil {
					t.Fatal(err)
				}
				lines, err := f.store.History(t.Context(), store.HistoryQuery{Node: w.Node})
				if err != nil {
					t.Fatal(err)
				}
				if n := f.node(w.Node); n.ObservedSeq != 4 || len(lines) != 4-int(c.applied) {
					t.Errorf("told that all is applied, and the row is at event %d, with %d lines of history", n.ObservedSeq, len(lines))
				}
			}
		})
	}
}
