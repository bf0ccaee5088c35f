package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// claims are the works that this process has claimed and has certainly not put on the bus
// yet. A work that somebody else has claimed may have been sent, and been lost since, unless
// its key shows that it was not (decision 48).
//
// They belong to the goroutine of Follow.
type claims map[string]struct{}

// claimGrace is how long a claim and what follows it may go on when the relay is to end: a
// work that is claimed and not sent begins much later.
const claimGrace = 2 * time.Second

// sendOut writes the first documents of the works that orders send out. Before anything of
// that is on the bus the database says that it may be: who finds a claim that is not his own,
// and cannot see that nothing came of it, takes the document for lost. Works that restore is to write are claimed, too: their
// entries will not send them out any more. It fails as a whole when the claims cannot be
// written.
func (w *writer) sendOut(ctx context.Context, orders []*order) error {
	var out []*order
	var entries []string
	for _, o := range orders {
		if o.err != nil || o.first == nil && !o.lost {
			continue
		}
		if o.first != nil {
			out = append(out, o)
		}
		_, ours := w.memory.claims[o.open]
		if entry, sends := o.sends[o.open]; sends && !ours {
			entries = append(entries, entry)
		}
	}
	if len(out)+len(entries) == 0 {
		return nil
	}
	ctx, cancel := outlive(ctx, claimGrace)
	defer cancel()
	claimed, err := w.Store.ClaimWorks(ctx, w.site.Name, entries, newest(orders))
	if err != nil {
		return err
	}
	for _, work := range claimed {
		w.memory.claims[work] = struct{}{}
	}
	pointClaimed.Hit(w.site.Name)
	ours, err := w.unsent(ctx, out)
	if err != nil {
		return err
	}
	w.each(ctx, ours, w.putFirst)
	for _, o := range ours {
		unwritten := bus.NotWritten(o.err)
		if o.err == nil || !isRace(o.err) && !unwritten {
			delete(w.memory.claims, o.open)
		}
		if delete(w.memory.refused, o.open); unwritten {
			w.memory.refused[o.open] = struct{}{}
		}
		// Somebody has written the key: if nothing is there now, it was lost.
		o.hadWork = o.hadWork || isRace(o.err)
	}
	return nil
}

// unsent returns those of orders whose works have certainly not been sent out. The others are
// lost, or on their way, which the next look at their keys shows.
func (w *writer) unsent(ctx context.Context, orders []*order) ([]*order, error) {
	var ours, others []*order
	var works []string
	for _, o := range orders {
		if _, is := w.memory.claims[o.open]; is {
			ours = append(ours, o)
		} else {
			others, works = append(others, o), append(works, o.open)
		}
	}
	claims, last, err := w.claimsOf(ctx, works)
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		if revision, waits := claims[o.open]; waits && o.tells(revision, last) {
			ours = append(ours, o)
		} else {
			o.lost = true
		}
	}
	return ours, nil
}

// newest is the newest revision of a WORK key that orders have read, and not 0.
func newest(orders []*order) uint64 {
	n := uint64(1)
	for _, o := range orders {
		n = max(n, o.work.revision)
	}
	return n
}

// tells reports whether the order's WORK key, which does not hold a work that was claimed under
// revision, tells that it never did. What nobody has claimed (0) nobody has sent. A key whose
// document, or marker, is not newer than the claim was not written since. Nor was it if it
// holds another work, in whose place the claimed one would have come. A key that never held
// anything tells nothing, and neither does a bucket whose last revision is below the claim's:
// it is an older copy.
func (o *order) tells(revision, last uint64) bool {
	return revision == 0 || revision <= last && (o.work.value != nil || 0 < o.work.revision && o.work.revision <= revision)
}

// claimsOf returns under which revision those of works that wait were claimed, 0 for nobody
// has, and the last revision of WORK, which is asked for if one of them has been.
func (w *writer) claimsOf(ctx context.Context, works []string) (claims map[string]uint64, last uint64, err error) {
	if claims, err = w.Store.Claims(ctx, w.site.Name, works); err != nil {
		return nil, 0, err
	}
	for _, revision := range claims {
		if revision == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		info, err := w.works.Info(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("how far bucket %s is: %w", bus.WorkBucket, err)
		}
		return claims, info.State.LastSeq, nil
	}
	return claims, 0, nil
}

// outlive returns a context that ends a while after ctx has.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() { stop(); cancel() }
}
