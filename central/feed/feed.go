// Package feed lets many follow what changes: it hands out the changes that transactions
// have noted in the order of their numbers, publishes them, and removes old ones.
//
// Every replica of central runs a Feed on the one database. Any of them publishes what any
// has written, and numbers what was written without a number; a replica that dies leaves
// what it wrote, and what it was about to publish, to the others. Those who follow
// read by number from the database, and from memory what has just been read, so that a
// hundred followers cost hardly more than one. Hints between replicas save time only.
//
// It imports central/store. A Feed is safe for concurrent use.
package feed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/trouble"
)

// ErrGone: the changes after that number are not kept any more, or there is no such
// number. Who follows must begin anew.
var ErrGone = errors.New("the changes after that number are not kept any more")

// ErrStopped: the feed has ended with its replica; another one has the same changes.
var ErrStopped = errors.New("this replica ends")

// ErrFull: as many follow as may.
var ErrFull = errors.New("too many follow at this moment")

// Hints tells other replicas that there is something new, and hears of theirs. Losing
// some costs a second.
type Hints interface {
	// Tell must not block.
	Tell()
	// Hear calls f, which does not block, for each hint until cancel.
	Hear(f func()) (cancel func(), err error)
}

// Config of a Feed. Store and Log are required.
type Config struct {
	Store *store.Store
	Log   *slog.Logger
	Hints Hints // nil: none
	// Keep is how many numbers are kept for those who come back; 0: 100,000.
	Keep int64
	// Followers is how many may follow at once; 0: 256.
	Followers int
	// Publish is called with changes in order, at one replica at a time, and returns when others
	// have been told of them, or ctx has ended; nil: not here. What it fails with is published again
	// later, from the first of these changes on, as is what was in the hands of a replica
	// that died. So each is published at least once, while it is kept.
	Publish func(ctx context.Context, changes []*store.Change) error
	// Patience is after how long a replica that has not said how far it has published counts as
	// dead; 0: 5 s.
	Patience time.Duration
}

const (
	batch        = 500 // changes numbered, claimed or read at once
	portion      = 50  // changes published at once
	memory       = 4096
	idleEvery    = 5 * time.Second        // how often others' changes are looked for while nobody follows
	followEvery  = time.Second            // while somebody does
	pause        = 20 * time.Millisecond  // between rounds, so that busy times make large batches
	quietPause   = 200 * time.Millisecond // while nobody follows here: a round may be a commit
	pruneEvery   = 10 * time.Second
	pruneStep    = 2000
	publishEvery = 10 * time.Second // how often, at least, what could not be published is tried again
)

// Feed numbers and hands out changes.
type Feed struct {
	cfg   Config
	wake  chan struct{}
	wrote atomic.Bool // this replica has written something that others have not been told of

	numbering sync.Mutex

	publishing publishing     // Run's
	spells     trouble.Spells // of what fails

	mu        sync.Mutex
	followers int
	// recent are the changes after number base, as long as somebody follows.
	recent  []*store.Change
	base    int64
	reading bool
	news    chan struct{} // closed when there is something new
	stopped bool
}

// New makes a Feed; Run must be running for anything to be handed out.
func New(c Config) *Feed {
	if c.Keep == 0 {
		c.Keep = 100_000
	}
	if c.Followers == 0 {
		c.Followers = 256
	}
	if c.Patience == 0 {
		c.Patience = 5 * time.Second
	}
	return &Feed{cfg: c, wake: make(chan struct{}, 1), news: make(chan struct{})}
}

// Nudge makes the feed look for changes soon.
func (f *Feed) Nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run publishes and hands out until ctx ends. Afterwards nobody follows any more.
func (f *Feed) Run(ctx context.Context) error {
	defer f.stop()
	defer f.cfg.Store.WatchChanges(func() { f.wrote.Store(true); f.Nudge() })()
	if f.cfg.Hints != nil {
		cancel, err := f.cfg.Hints.Hear(f.Nudge)
		if err != nil {
			f.cfg.Log.Warn("the feed hears no hints of other replicas; it looks every second", "error", err)
		} else {
			defer cancel()
		}
	}
	var pruned time.Time
	for {
		if err := f.round(ctx); ctx.Err() == nil {
			f.spells.Tried(f.cfg.Log, "to read changes for those who follow", err)
		}
		if time.Since(pruned) >= pruneEvery {
			pruned = time.Now()
			if err := f.prune(ctx); ctx.Err() == nil {
				f.spells.Tried(f.cfg.Log, "to remove old changes", err)
			}
		}
		if !f.wait(ctx) {
			return nil
		}
	}
}

// wait waits until there may be something to do; false: ctx has ended.
func (f *Feed) wait(ctx context.Context) bool {
	f.mu.Lock()
	least, every := quietPause, idleEvery
	if f.publishing.failures > 0 {
		every = followEvery
	}
	if f.followers > 0 {
		least, every = pause, followEvery
	}
	f.mu.Unlock()
	short, long := time.NewTimer(least), time.NewTimer(every)
	defer short.Stop()
	defer long.Stop()
	select {
	case <-short.C:
	case <-ctx.Done():
		return false
	}
	select {
	case <-f.wake:
	case <-long.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// round numbers what has none, tells others of what is new, publishes and reads it.
func (f *Feed) round(ctx context.Context) error {
	if err := f.number(ctx); err != nil && !busy(err) {
		return err
	}
	if f.wrote.Swap(false) && f.cfg.Hints != nil {
		f.cfg.Hints.Tell()
	}
	if err := f.publish(ctx); busy(err) {
		f.Nudge() // it may not have seen the newest
	} else if err != nil {
		return err
	}
	return f.read(ctx)
}

// busy: another replica is at it.
func busy(err error) bool { return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) }

// number numbers changes of transactions that did not do so themselves.
func (f *Feed) number(ctx context.Context) error {
	f.numbering.Lock()
	defer f.numbering.Unlock()
	for {
		did, err := f.cfg.Store.NumberChanges(ctx, batch)
		if err != nil {
			return err
		}
		if did.Count > 0 {
			f.wrote.Store(true)
		}
		if did.Count < batch {
			return nil
		}
	}
}

// read takes in what is new, when somebody follows.
func (f *Feed) read(ctx context.Context) error {
	f.mu.Lock()
	follow, reading, last := f.followers > 0, f.reading, f.last()
	if !follow {
		f.recent, f.reading = nil, false
	}
	f.mu.Unlock()
	if !follow {
		return nil
	}
	if !reading {
		now, err := f.cfg.Store.ChangeRange(ctx)
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.base, f.reading = now.Newest, true
		f.tell() // what came before is in the database
		f.mu.Unlock()
		return nil
	}
	for {
		changes, err := f.cfg.Store.Changes(ctx, last, batch)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			first := changes[0].Seq - changes[0].Numbers()
			f.mu.Lock()
			if first > last { // what came between is gone, as those who were to read it are to find
				f.recent, f.base = nil, first
			}
			last = changes[len(changes)-1].Seq
			f.recent = append(f.recent, changes...)
			if drop := len(f.recent) - memory; drop > 0 {
				f.base = f.recent[drop-1].Seq
				f.recent = append([]*store.Change(nil), f.recent[drop:]...)
			}
			f.tell()
			f.mu.Unlock()
		}
		if len(changes) < batch {
			return nil
		}
	}
}

// last is the newest number in memory; mu is held.
func (f *Feed) last() int64 {
	if n := len(f.recent); n > 0 {
		return f.recent[n-1].Seq
	}
	return f.base
}

// tell wakes those who wait; mu is held.
func (f *Feed) tell() {
	close(f.news)
	f.news = make(chan struct{})
}

func (f *Feed) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	f.tell()
}

// prune removes the oldest changes beyond those that are kept.
func (f *Feed) prune(ctx context.Context) error {
	now, err := f.cfg.Store.ChangeRange(ctx)
	if err != nil {
		return err
	}
	if err := f.leave(ctx, now.Newest); err != nil && !busy(err) {
		return err
	}
	for limit := now.Newest - f.cfg.Keep; now.Pruned < limit; {
		now.Pruned = min(now.Pruned+pruneStep, limit)
		if err := f.cfg.Store.PruneChanges(ctx, now.Pruned); err != nil {
			return err
		}
	}
	return nil
}
