package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
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
type Relay struct {
	cfg Config

	mu     sync.Mutex
	nudges map[chan struct{}]struct{}
}

// New returns a relay that is idle until Follow.
func New(cfg Config) *Relay {
	for d, preset := range map[*time.Duration]time.Duration{&cfg.Tick: time.Second, &cfg.Takeover: 3 * time.Second, &cfg.Reconcile: time.Minute} {
		if *d == 0 {
			*d = preset
		}
	}
	return &Relay{cfg: cfg, nudges: map[chan struct{}]struct{}{}}
}

// linger is how long a nudge waits for more of its kind.
const linger = 10 * time.Millisecond

// Nudge says that this replica has committed outbox entries. It never blocks.
func (r *Relay) Nudge() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.nudges {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// subscribe returns a channel that Nudge wakes, until cancel.
func (r *Relay) subscribe() (nudge chan struct{}, cancel func()) {
	nudge = make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nudges[nudge] = struct{}{}
	return nudge, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.nudges, nudge)
	}
}

// Follow publishes to site until ctx ends. What fails stays in the outbox for the
// next tick.
func (r *Relay) Follow(ctx context.Context, site *bus.Site) error {
	nudge, cancel := r.subscribe()
	defer cancel()
	nudge <- struct{}{} // what was committed before somebody listened
	w := &writer{Config: &r.cfg, site: site, log: r.cfg.Log.With("site", site.Name)}
	tick := time.NewTicker(r.cfg.Tick)
	defer tick.Stop()
	check := time.NewTicker(r.cfg.Reconcile)
	defer check.Stop()
	w.try(ctx, "reconcile", func() error { return w.reconcile(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-nudge:
			// Requests come in crowds: a moment's wait turns many small batches into
			// few, and nobody notices it.
			gather := time.NewTimer(linger)
			select {
			case <-ctx.Done():
				gather.Stop()
				return nil
			case <-gather.C:
			}
			w.try(ctx, "publish outbox", func() error { return w.drain(ctx, w.own) })
		case <-tick.C:
			w.try(ctx, "publish old outbox", func() error { return w.drain(ctx, w.old) })
		case <-check.C:
			w.try(ctx, "reconcile", func() error { return w.reconcile(ctx) })
		}
	}
}

// try runs a background task, which fails and is run again by its timer.
func (w *writer) try(ctx context.Context, what string, f func() error) {
	if err := f(); err != nil && ctx.Err() == nil {
		w.log.Warn("relay: "+what+" failed, trying again", "error", err)
	}
}

// batchSize bounds what is read of the outbox, and rendered, at once.
const batchSize = 256

type fetch func(ctx context.Context, after string) ([]*store.Outbox, error)

func (w *writer) own(ctx context.Context, after string) ([]*store.Outbox, error) {
	return w.Store.OwnOutbox(ctx, w.site.Name, after, batchSize)
}

func (w *writer) old(ctx context.Context, after string) ([]*store.Outbox, error) {
	return w.Store.OldOutbox(ctx, w.site.Name, after, w.Takeover, batchSize)
}

// drain publishes what fetch finds, batch by batch, until there is no more.
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
		done, err := w.publish(ctx, batch, blocked)
		w.Metrics.RelaySeconds.WithLabelValues(w.site.Name).Observe(time.Since(began).Seconds())
		errs = append(errs, err)
		if err := w.Store.DeleteOutbox(ctx, done); err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, o := range done {
			w.Metrics.Relayed.WithLabelValues(w.site.Name, string(o.Kind)).Inc()
		}
		w.Metrics.RelayErrors.WithLabelValues(w.site.Name).Add(float64(len(batch) - len(done)))
		if len(batch) < batchSize || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}
