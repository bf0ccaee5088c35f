package relay

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Config of a relay.
type Config struct {
	Store *store.Store
	Key   *seal.Key // of the database
	// Groups are the keys of the conductor groups; nil: those of Key, none of which was ever replaced.
	Groups  GroupKeys
	Metrics *metrics.Metrics
	Log     *slog.Logger
	// SiteOf returns the site that serves a conductor group.
	SiteOf func(group string) string
	// Tick is how often the outbox is searched for old entries; 0: 1 s.
	Tick time.Duration
	// Takeover is the age at which entries are published whoever wrote them: their
	// writer has gone, or the site was away. 0: 3 s.
	Takeover time.Duration
	// Look is how often a site is asked whether it has lost anything while work is open
	// there; 0: 15 s. Without work it is quietLooks times rarer: rackds, which are near
	// the bus, find a loss sooner and say so with a beat.
	Look time.Duration
	// Reconcile is how often all of a site's keys are compared with the rows although
	// nothing looks wrong; 0: 6 h.
	Reconcile time.Duration
	// Settle is how long a work document that a site has lost is left to those who
	// remember it before it is made anew from the rows; 0: bus.LossSettled, by when
	// whoever has not noticed the loss has lost its lease.
	Settle time.Duration
	// Drained returns when all that a site has reported so far is in the rows.
	Drained func(ctx context.Context, site *bus.Site) error
}

// GroupKeys returns a conductor group's key as it counts now (central/groupkeys).
type GroupKeys interface {
	ForGroup(group string) (*seal.Key, error)
}

// Relay is safe for concurrent use.
type Relay struct {
	cfg Config

	mu     sync.Mutex
	memory map[string]*siteMemory
}

// siteMemory belongs to the one Follow of its site that runs.
type siteMemory struct {
	nodes, work memory
	drives      drives
	claims      claims
	// refused are those of them that the site has refused, as one does that has no room left: nothing of them was there.
	refused claims
}

// New returns a relay that is idle until Follow.
func New(cfg Config) *Relay {
	for d, preset := range map[*time.Duration]time.Duration{&cfg.Tick: time.Second, &cfg.Takeover: 3 * time.Second,
		&cfg.Look: 15 * time.Second, &cfg.Reconcile: 6 * time.Hour, &cfg.Settle: bus.LossSettled} {
		if *d == 0 {
			*d = preset
		}
	}
	if cfg.Groups == nil {
		cfg.Groups = cfg.Key
	}
	return &Relay{cfg: cfg, memory: map[string]*siteMemory{}}
}

func (r *Relay) remembered(site string) *siteMemory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory[site] == nil {
		r.memory[site] = &siteMemory{claims: claims{}, refused: claims{}}
	}
	return r.memory[site]
}

const quietLooks = 4

// beatLook is how long after a look beats bring about the next one at the soonest: a stolen rackd may beat as often as it likes.
const beatLook = time.Second

// linger is how long an entry waits for more of its kind; in a crowd, which the batch
// before has shown, it waits longer, and longest in one that sends no work, until some
// comes: a batch costs a site's bus the same few syncs, however many it is of.
const (
	linger      = 10 * time.Millisecond
	crowd       = 8 // entries
	crowdLinger = 20 * time.Millisecond
	quietLinger = 200 * time.Millisecond
)

// Follow publishes to site until ctx ends. What fails stays in the outbox for the
// next tick. An error means that the site's buckets are not there any more: it has
// to be opened again. One Follow of a site runs at a time.
func (r *Relay) Follow(ctx context.Context, site *bus.Site) error {
	w := &writer{Config: &r.cfg, site: site, log: r.cfg.Log.With("site", site.Name), inbox: newInbox(), linger: linger,
		memory: r.remembered(site.Name), lost: lost{}, repairs: &repairs{listed: map[target]bool{}}}
	if err := w.open(ctx); err != nil {
		return err
	}
	defer r.cfg.Store.WatchOutbox(w.told)()
	defer w.forgetLast()
	defer w.leaveRepairs()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beats, err := site.Beats(ctx)
	if err != nil {
		return fmt.Errorf("listen to the beats of site %q: %w", site.Name, err)
	}
	tick := time.NewTicker(r.cfg.Tick)
	defer tick.Stop()
	look, lookAt, looked := time.NewTimer(0), time.Now(), time.Time{}
	defer look.Stop()
	lookIn := func(d time.Duration) { // if that is sooner
		if at := time.Now().Add(d); at.Before(lookAt) {
			lookAt = at
			look.Reset(d)
		}
	}
	restore := time.NewTimer(w.restoreAgain())
	defer restore.Stop()
	always := make(chan struct{})
	close(always)
	for {
		var repairable <-chan struct{} // among the rest: requests must not wait for repairs
		if len(w.todo) > 0 {
			repairable = always
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.inbox.wake:
			if !w.gather(ctx) {
				return nil
			}
			w.try(ctx, "publish", w.publishNew)
			if w.quiet { // no more: what was just sent out must not be lost for long
				w.quiet = false
				lookIn(r.cfg.Look)
			}
		case b := <-beats:
			if b.Lost && r.cfg.SiteOf(b.Group()) == site.Name {
				w.memory.drives.missed = true
				lookIn(time.Until(looked.Add(beatLook)))
			}
		case <-tick.C:
			// In this order, so that the search finds nothing that is done already.
			w.try(ctx, "publish", w.publishNew)
			w.try(ctx, "delete what is published", w.forget)
			w.try(ctx, "publish old outbox", w.publishOld)
		case <-look.C:
			if err := w.look(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			looked = time.Now()
			lookAt = looked.Add(w.lookAgain())
			look.Reset(time.Until(lookAt))
		case <-repairable:
			w.try(ctx, "repair", w.repair)
		case <-restore.C:
			w.try(ctx, "write lost work again", w.restore)
			restore.Reset(w.restoreAgain())
		}
	}
}

// gather waits for more of what has come, until there is a batch of it: requests come in
// crowds, and a moment's wait, which nobody notices, turns many small batches into few.
// false: ctx has ended.
func (w *writer) gather(ctx context.Context) bool {
	timer := time.NewTimer(w.linger)
	defer timer.Stop()
	for sent := w.inbox.sent; ; {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-w.inbox.full: // what more came would go with the next batch
			return true
		case <-sent:
			sent = nil
			timer.Reset(min(w.linger, crowdLinger))
		}
	}
}

// lookAgain is how long to wait before the next look.
func (w *writer) lookAgain() time.Duration {
	if w.quiet {
		return quietLooks * w.Look
	}
	return w.Look
}

// open finds the streams of the two buckets and of the config drives.
func (w *writer) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for name, stream := range map[string]*jetstream.Stream{"KV_" + bus.NodesBucket: &w.nodes, "KV_" + bus.WorkBucket: &w.works, "OBJ_" + bus.ConfigDrives: &w.drives} {
		if *stream, err = w.site.JS.Stream(ctx, name); err != nil {
			return fmt.Errorf("open the stream %s of site %q: %w", name, w.site.Name, err)
		}
	}
	return nil
}

// try runs a background task, which fails and is run again by its timer.
func (w *writer) try(ctx context.Context, what string, f func(context.Context) error) {
	if err := f(ctx); ctx.Err() == nil {
		w.spells.Tried(w.log, "relay: "+what, err)
	}
}
