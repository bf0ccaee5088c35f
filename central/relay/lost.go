package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// lost are the work documents that a site was found to have lost. They are not written
// again at once: a rackd that has not noticed the loss may be at work, and what it has
// reported may not be in the rows yet. It belongs to the goroutine of Follow.
type lost map[target]sighting

// sighting is how a key was when it was first found to be lost. As long as it is like
// that nobody has written the work again.
type sighting struct {
	revision uint64
	at       time.Time
}

// see takes in that a document is lost.
func (l lost) see(o *order, now time.Time) {
	if s, known := l[o.target]; !known || s.revision != o.work.revision {
		l[o.target] = sighting{o.work.revision, now}
	}
}

// restart counts all sightings anew: the bucket has lost something again.
func (l lost) restart(now time.Time) {
	for t, s := range l {
		l[t] = sighting{s.revision, now}
	}
}

// due returns those that have been lost for settle, and how long it is until the next
// one is.
func (l lost) due(settle time.Duration, now time.Time) (list []target, next time.Duration) {
	next = settle
	for t, s := range l {
		if left := settle - now.Sub(s.at); left <= 0 {
			list = append(list, t)
		} else {
			next = min(next, left)
		}
	}
	return list, next
}

// restoreEvery is how often the lost documents are looked at at most.
const restoreEvery = time.Second

// restoreAgain is how long to wait before restore, a long time when nothing is lost.
func (w *writer) restoreAgain() time.Duration {
	_, next := w.lost.due(w.Settle, time.Now())
	return max(next, min(restoreEvery, w.Settle))
}

// restore writes again what the site lost Settle ago: by then each of its rackds has
// noticed the loss, or its lease is over. First all that the site has stored must be in
// the rows, and then the rows must say that older epochs do not count any more. Whoever
// remembers the document and is sure of it writes it again sooner.
func (w *writer) restore(ctx context.Context) error {
	due, _ := w.lost.due(w.Settle, time.Now())
	if len(due) == 0 {
		return nil
	}
	switch again, err := w.lostAgain(ctx); {
	case err != nil:
		return err
	case again:
		w.lost.restart(time.Now())
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := w.Drained(wait, w.site); err != nil {
		return fmt.Errorf("lost work waits for what its site has reported: %w", err)
	}
	for part := range slices.Chunk(due, batchSize) {
		if err := w.restorePart(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// lostAgain reports whether the bucket has lost something since the last look.
func (w *writer) lostAgain(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	info, err := w.works.Info(ctx)
	if err != nil {
		return false, err
	}
	l := w.memory.work.note(witnessOf(info))
	return l.what != "" && !l.unsure, nil
}

func (w *writer) restorePart(ctx context.Context, part []target) error {
	var orders []*order
	for _, t := range part {
		orders = append(orders, &order{target: t, repair: true})
	}
	w.each(ctx, orders, w.read)
	rows, err := w.Store.Snapshots(ctx, nodesOf(orders))
	if err != nil {
		return err
	}
	waiting, err := w.waiting(ctx, orders, rows)
	if err != nil {
		return err
	}
	now := time.Now()
	orders = slices.DeleteFunc(orders, func(o *order) bool {
		if o.err != nil {
			return true // for the next time
		}
		row := rows[o.id]
		if row == nil || !w.serves(o.target, row) || !w.isLost(o, row, waiting) {
			delete(w.lost, o.target)
			w.add(o.target) // whatever there is to do now
			return true
		}
		w.lost.see(o, now)
		return w.lost[o.target].at.Equal(now) // somebody has written it, and it was lost again
	})
	epochs, err := w.void(ctx, orders, rows, now)
	if err != nil {
		return err
	}
	w.each(ctx, orders, func(ctx context.Context, o *order) error {
		epoch, valid := epochs[o.id]
		if !valid {
			return nil // the row has changed
		}
		doc := restored(rows[o.id], w.holds(o), epoch)
		if err := w.sign(doc, rows[o.id].Work.Document()); err != nil {
			return err
		}
		body, err := doc.Body()
		if err != nil {
			return err
		}
		if err := o.work.put(ctx, w.site, w.site.Work, &w.memory.work, o.key(), body); err != nil {
			return err
		}
		w.log.Warn("the site had lost a work document; central makes it again", "node", o.id, "work", doc.ID, "epoch", doc.Epoch)
		o.written = true
		return nil
	})
	for _, o := range orders {
		switch {
		case o.written:
			delete(w.lost, o.target)
			w.Metrics.Repaired.WithLabelValues(w.site.Name).Inc()
		case o.err != nil && !isRace(o.err): // else somebody was faster
			err = o.err
		}
	}
	return err
}

// isLost reports whether the document that an order's row asks for is lost.
func (w *writer) isLost(o *order, row *store.Snapshot, waiting map[string]bool) bool {
	_, v := decide(row, w.holds(o), o.why(row, waiting), waiting[superseded(row)])
	return v == lostIt
}

// void makes the rows say that older epochs do not count any more, and returns the
// epoch that each node's document begins with. A row that another replica has changed
// in the same way since the loss was sighted stays as it is: as the key is still as it
// was, nobody has seen the epoch that it names.
func (w *writer) void(ctx context.Context, orders []*order, rows map[string]*store.Snapshot, now time.Time) (map[string]uint64, error) {
	if len(orders) == 0 {
		return nil, nil
	}
	var epochs map[string]uint64
	err := w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		epochs = map[string]uint64{}
		nodes, err := tx.Observed(ctx, nodesOf(orders))
		if err != nil {
			return err
		}
		var save []*store.Node
		for _, o := range orders {
			n, row := nodes[o.id], rows[o.id]
			if n == nil || n.WorkID != row.Work.ID || n.Generation != row.Work.Generation {
				continue
			}
			n.Observe(row.Work.Generation)
			if n.ObservedEpoch < far(row.Work, w.lost[o.target].at) {
				n.ObservedEpoch, n.ObservedSeq = max(far(row.Work, now), n.ObservedEpoch+lostEpochs, w.epochOf(o)+lostEpochs), 0
				save = append(save, n)
			}
			epochs[o.id] = n.ObservedEpoch
		}
		return tx.SaveObserved(ctx, save)
	})
	if err != nil {
		return nil, fmt.Errorf("void the epochs of %d lost works: %w", len(orders), err)
	}
	return epochs, nil
}

// lostEpochs is how far above all epochs that were observed a lost document begins
// again, for each second since its request: rackds may have come further than what
// they reported says, and a document may be lost more than once.
const lostEpochs = work.LostEpochs

// far is the least epoch of a document that was lost at a moment.
func far(w *store.Work, at time.Time) uint64 {
	return lostEpochs * (2 + uint64(max(0, at.Sub(w.RequestedAt)/time.Second)))
}

// epochOf is the epoch of what an order's key holds.
func (w *writer) epochOf(o *order) uint64 {
	if d := w.holds(o); d != nil {
		return d.Epoch
	}
	return 0
}

// restored is the document that takes the place of a lost one: an older copy of it,
// which says at least where the work stood then and whose it is, or a new one.
func restored(row *store.Snapshot, old *work.Document, epoch uint64) *work.Document {
	fresh := row.Work.Document()
	switch {
	case old != nil && old.ID == fresh.ID:
		fresh = *old
	case old != nil:
		succeed(&fresh, old)
	}
	fresh.Epoch, fresh.Lost = epoch, true
	return &fresh
}

// serves reports whether a target is where its node belongs.
func (w *writer) serves(t target, row *store.Snapshot) bool {
	return bus.GroupToken(row.Node.ConductorGroup) == t.token && w.SiteOf(row.Node.ConductorGroup) == w.site.Name
}
