package relay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/failpoint"
)

// The places where a replica may die with an outbox entry in its hands, in the order
// in which it passes them; the detail is the site's name.
var (
	pointPublish   = failpoint.New("relay.publish")   // before a batch is published
	pointHalf      = failpoint.New("relay.half")      // a node's document is written, its work is not
	pointClaimed   = failpoint.New("relay.claimed")   // works are claimed, and not written
	pointPublished = failpoint.New("relay.published") // published, not yet deleted
	pointForget    = failpoint.New("relay.forget")    // before published entries are deleted
	pointForgotten = failpoint.New("relay.forgotten") // after it
)

// batchSize bounds what is read of the outbox, and rendered, at once.
const batchSize = 512

// told takes in what this replica has committed for the writer's site.
func (w *writer) told(entries []*store.Outbox) {
	var ours []*store.Outbox
	for _, o := range entries {
		if w.SiteOf(o.Group) == w.site.Name {
			ours = append(ours, o)
		}
	}
	if len(ours) > 0 {
		w.inbox.add(ours)
	}
}

// publishNew publishes what this replica has committed. What fails is found again by
// publishOld.
func (w *writer) publishNew(ctx context.Context) error {
	entries, missed := w.inbox.take()
	switch sends := slices.ContainsFunc(entries, func(o *store.Outbox) bool { return o.Object != "" }); {
	case len(entries) < crowd:
		w.linger = linger
	case sends:
		w.linger = crowdLinger
	default:
		w.linger = quietLinger
	}
	if !missed {
		return w.drain(ctx, func(context.Context, string) ([]*store.Outbox, error) {
			batch := slices.Clone(entries[:min(len(entries), batchSize)])
			clear(entries[:len(batch)]) // the nodes that they left
			entries = entries[len(batch):]
			return batch, nil
		})
	}
	if err := w.forget(ctx); err != nil {
		return err
	}
	return w.drain(ctx, func(ctx context.Context, after string) ([]*store.Outbox, error) {
		return w.Store.OwnOutbox(ctx, w.site.Name, after, batchSize)
	})
}

// publishOld publishes what has waited for long, whoever wrote it.
func (w *writer) publishOld(ctx context.Context) error {
	err := w.drain(ctx, func(ctx context.Context, after string) ([]*store.Outbox, error) {
		return w.Store.OldOutbox(ctx, w.site.Name, after, w.Takeover, batchSize)
	})
	return errors.Join(err, w.publishAhead(ctx), w.forget(ctx))
}

// publishAhead publishes what waits though its writer's clock, ahead of this replica's, says that it is yet to
// come: it is as old as this replica has seen it wait, by a clock that never steps.
func (w *writer) publishAhead(ctx context.Context) error {
	seen := map[string]time.Time{}
	var due []*store.Outbox
	for after := ""; len(seen) < inboxEntries; {
		page, err := w.Store.AheadOutbox(ctx, w.site.Name, after, batchSize)
		if err != nil {
			return err
		}
		for _, o := range page {
			since, known := w.ahead[o.ID]
			if !known {
				since = time.Now()
			}
			if seen[o.ID] = since; time.Since(since) >= w.Takeover {
				due = append(due, o)
			}
			after = o.ID
		}
		if len(page) < batchSize {
			break
		}
	}
	w.ahead = seen
	return w.drain(ctx, func(context.Context, string) ([]*store.Outbox, error) {
		batch := due[:min(len(due), batchSize)]
		due = due[len(batch):]
		return batch, nil
	})
}

// fetch returns the next entries after an id, at most batchSize; fewer are the last.
type fetch func(ctx context.Context, after string) ([]*store.Outbox, error)

// drain publishes what next finds, batch by batch, until there is no more.
func (w *writer) drain(ctx context.Context, next fetch) error {
	after := ""
	blocked := map[string]bool{} // nodes of which something failed: order is kept
	var errs []error
	for {
		batch, err := next(ctx, after)
		if err != nil || len(batch) == 0 {
			return errors.Join(append(errs, err)...)
		}
		after = batch[len(batch)-1].ID
		began := time.Now()
		pointPublish.Hit(w.site.Name)
		done, failed, err := w.publish(ctx, batch, blocked)
		pointPublished.Hit(w.site.Name)
		w.Metrics.RelaySeconds.WithLabelValues(w.site.Name).Observe(time.Since(began).Seconds())
		errs = append(errs, err)
		for _, o := range done {
			w.Metrics.Relayed.WithLabelValues(w.site.Name, string(o.Kind)).Inc()
			w.done = append(w.done, o.ID)
			delete(w.memory.claims, o.Object)
			delete(w.memory.refused, o.Object)
		}
		w.Metrics.RelayErrors.WithLabelValues(w.site.Name).Add(float64(failed))
		if len(w.done) >= batchSize {
			if err := w.forget(ctx); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		if len(batch) < batchSize || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// forget deletes what is published. It is done for many entries at once, up to a tick
// later: whoever crashes in between leaves entries that are published once more,
// which changes nothing.
func (w *writer) forget(ctx context.Context) error {
	for len(w.done) > 0 {
		part := w.done[:min(len(w.done), batchSize)]
		pointForget.Hit(w.site.Name)
		if err := w.Store.DeleteOutbox(ctx, w.site.Name, part); err != nil {
			return err
		}
		pointForgotten.Hit(w.site.Name)
		w.done = w.done[len(part):]
	}
	w.done = nil
	return nil
}

// forgetLast does so when the writer ends, to spare other replicas the trouble.
func (w *writer) forgetLast() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := w.forget(ctx); err != nil {
		w.log.Info("relay: published entries stay in the outbox; another replica publishes them again", "entries", len(w.done), "error", err)
	}
}
