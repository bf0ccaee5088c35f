package feed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/failpoint"
)

var (
	pointClaimed = failpoint.New("feed.claimed") // changes are claimed, and not published
	pointTold    = failpoint.New("feed.told")    // they are published, which the database does not know
)

// publishing is what a feed remembers of who publishes. Not safe for concurrent use.
type publishing struct {
	// unwritten is our own newest claim, which is done up to told. The database may not know that.
	unwritten store.Publication
	told      int64
	// seen is what was last found in the database, first at since and with newest as the newest change.
	seen   store.Publication
	since  time.Time
	newest int64

	failures int       // in a row
	again    time.Time // not before
}

// ahead reports whether all up to told is published although the database says less: another replica has taken this one for dead, and
// has begun once more where our claim began. A database that has come back from an older copy tells of other changes by these numbers.
func (p *publishing) ahead(at store.Publication) bool {
	return p.unwritten.Turn < at.Turn && p.unwritten.Told <= at.Told && at.Told < p.told
}

// standing returns for how long the database has said the same. newest is what is remembered with it.
func (p *publishing) standing(at store.Publication, newest int64) time.Duration {
	now := time.Now()
	if p.since.IsZero() || p.seen != at {
		p.seen, p.since, p.newest = at, now, newest
	}
	return now.Sub(p.since)
}

// publish publishes what nobody has published. store.ErrConflict: another replica is at it, or
// has died there a moment ago.
func (f *Feed) publish(ctx context.Context) error {
	p := &f.publishing
	if f.cfg.Publish == nil || time.Now().Before(p.again) {
		return nil
	}
	for {
		at, err := f.cfg.Store.Publication(ctx)
		if err != nil {
			return err
		}
		switch {
		case !at.Open() && !p.ahead(at):
		case at == p.unwritten:
			if at, err = f.cfg.Store.PublishedChanges(ctx, at, p.told); err != nil {
				return err
			}
		case at.Open() && p.standing(at, 0) < f.cfg.Patience:
			return store.ErrConflict
		case p.ahead(at):
			if at, err = f.cfg.Store.PublishedChanges(ctx, at, p.told); err != nil {
				return err
			}
		default:
			f.cfg.Log.Warn("a replica of central has not said for long how far it has published changes; this one publishes them, some perhaps twice",
				"from", at.Told+1, "to", at.Claimed)
		}
		deadline := time.Now().Add(f.cfg.Patience / 2)
		changes, claim, err := f.cfg.Store.ClaimChanges(ctx, at, batch)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			if at.Open() { // they are not kept any more
				_, err = f.cfg.Store.PublishedChanges(ctx, at, at.Claimed)
			}
			return err
		}
		told, failed := f.tellOthers(ctx, deadline, claim, changes)
		p.unwritten, p.told = claim, told
		if err := f.told(ctx, claim, told); err != nil {
			return err
		}
		if p.failed(failed); ctx.Err() == nil { // they are kept
			f.spells.Tried(f.cfg.Log, "to publish changes", failed, "from", told+1, "to", claim.Claimed)
		}
		if failed != nil || len(changes) < batch {
			return nil
		}
	}
}

// tellOthers publishes changes that this replica has claimed, and returns up to where it has come.
// It ends at the deadline, before another replica may take this one for dead.
func (f *Feed) tellOthers(ctx context.Context, deadline time.Time, claim store.Publication, changes []*store.Change) (told int64, err error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	pointClaimed.Hit("")
	told = claim.Told
	for some := range slices.Chunk(changes, portion) {
		if err := ctx.Err(); err != nil {
			return told, err
		}
		if err := f.cfg.Publish(ctx, some); err != nil {
			return told, err
		}
		told = some[len(some)-1].Seq
	}
	pointTold.Hit("")
	return told, nil
}

// told writes how far a claim was published, also when this replica is told to end: the others
// would wait for it.
func (f *Feed) told(ctx context.Context, claim store.Publication, told int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.cfg.Patience/4)
	defer cancel()
	if _, err := f.cfg.Store.PublishedChanges(ctx, claim, told); err != nil {
		return fmt.Errorf("others may publish the changes after %d once more: %w", claim.Told, err)
	}
	return nil
}

// failed puts the next attempt off, further each time.
func (p *publishing) failed(err error) {
	if err == nil {
		p.failures, p.again = 0, time.Time{}
		return
	}
	p.again = time.Now().Add(min(time.Second<<p.failures, publishEvery))
	p.failures = min(p.failures+1, 8)
}

// leave says where nothing is published that nobody is to be told of what happened long ago,
// once that has been due for so long that nobody can be about to: otherwise whoever
// publishes one day would begin with it.
func (f *Feed) leave(ctx context.Context, newest int64) error {
	if f.cfg.Publish != nil {
		return nil
	}
	at, err := f.cfg.Store.Publication(ctx)
	if err != nil {
		return err
	}
	p := &f.publishing
	if p.standing(at, newest) < 12*f.cfg.Patience {
		return nil
	}
	if p.newest > at.Told {
		if at, err = f.cfg.Store.PublishedChanges(ctx, at, p.newest); err != nil {
			return err
		}
	}
	p.since = time.Time{}
	p.standing(at, newest)
	return nil
}
