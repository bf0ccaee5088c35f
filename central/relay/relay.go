package relay

import (
	"context"
	"log/slog"
	"time"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Config of a relay.
type Config struct {
	Store   *store.Store
	Key     *seal.Key // of the database
	Metrics *metrics.Metrics
	Log     *slog.Logger
	// SiteOf returns the site that serves a conductor group.
	SiteOf func(group string) string
	// Tick is how often the outbox is searched for old entries; 0: 1 s.
	Tick time.Duration
	// Takeover is the age at which entries are published whoever wrote them: their
	// writer has gone, or the site was away. 0: 3 s.
	Takeover time.Duration
	// Reconcile is how often a site's keys are compared with the rows; 0: 1 min.
	Reconcile time.Duration
}

// Relay is safe for concurrent use.
type Relay struct{ cfg Config }

// New returns a relay that is idle until Follow.
func New(cfg Config) *Relay {
	for d, preset := range map[*time.Duration]time.Duration{&cfg.Tick: time.Second, &cfg.Takeover: 3 * time.Second, &cfg.Reconcile: time.Minute} {
		if *d == 0 {
			*d = preset
		}
	}
	return &Relay{cfg: cfg}
}

// linger is how long an entry waits for more of its kind.
const linger = 10 * time.Millisecond

// Follow publishes to site until ctx ends. What fails stays in the outbox for the
// next tick.
func (r *Relay) Follow(ctx context.Context, site *bus.Site) error {
	w := &writer{Config: &r.cfg, site: site, log: r.cfg.Log.With("site", site.Name), inbox: newInbox()}
	defer r.cfg.Store.WatchOutbox(w.told)()
	defer w.forgetLast()
	tick := time.NewTicker(r.cfg.Tick)
	defer tick.Stop()
	check := time.NewTicker(r.cfg.Reconcile)
	defer check.Stop()
	w.try(ctx, "reconcile", w.reconcile)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.inbox.wake:
			// Requests come in crowds: a moment's wait turns many small batches into
			// few, and nobody notices it.
			gather := time.NewTimer(linger)
			select {
			case <-ctx.Done():
				gather.Stop()
				return nil
			case <-gather.C:
			}
			w.try(ctx, "publish", w.publishNew)
		case <-tick.C:
			// In this order, so that the search finds nothing that is done already.
			w.try(ctx, "publish", w.publishNew)
			w.try(ctx, "delete what is published", w.forget)
			w.try(ctx, "publish old outbox", w.publishOld)
		case <-check.C:
			w.try(ctx, "reconcile", w.reconcile)
		}
	}
}

// try runs a background task, which fails and is run again by its timer.
func (w *writer) try(ctx context.Context, what string, f func(context.Context) error) {
	if err := f(ctx); err != nil && ctx.Err() == nil {
		w.log.Warn("relay: "+what+" failed, trying again", "error", err)
	}
}
