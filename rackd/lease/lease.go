// Package lease is a rackd's membership: it renews the rackd's ALIVE key, says at
// any moment whether the lease still holds, and follows who else lives, as a ring.
//
// It may import protocol only. Invariant: Check returns nil only while less than
// LeaseTTL − LeaseMargin has passed on this machine's monotonic clock since before
// the last renewal that the bus confirmed; so a paused process, a stepped wall
// clock or a cut link all make it fail before another rackd can see the key expire.
package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/ring"
)

// ErrNotHeld means that the lease is not confirmed: start no side effect.
var ErrNotHeld = errors.New("this rackd's lease is not confirmed")

// ErrReplaced means that a younger process runs under this rackd's name.
var ErrReplaced = errors.New("another rackd with this name has started")

// Lease is safe for concurrent use.
type Lease struct {
	site    *bus.Site
	self    bus.Member
	log     *slog.Logger
	changed func()
	rev     uint64
	held    atomic.Pointer[time.Time] // start of the newest confirmed renewal

	mu      sync.Mutex
	members map[string]bus.Member // by key
	ring    *ring.Ring
	synced  chan struct{}
}

// New prepares a lease for self; changed is called, from Run's goroutines, after
// each change of the ring.
func New(site *bus.Site, self bus.Member, changed func(), log *slog.Logger) *Lease {
	self.Instance = uuid.NewString()
	self.StartedAt = time.Now().UTC()
	return &Lease{site: site, self: self, log: log, changed: changed,
		members: map[string]bus.Member{}, ring: ring.New(nil), synced: make(chan struct{})}
}

// Self is the member as announced.
func (l *Lease) Self() bus.Member { return l.self }

// Synced is closed once the first ring is known.
func (l *Lease) Synced() <-chan struct{} { return l.synced }

// Check returns nil while the lease is held, else an error that wraps ErrNotHeld.
func (l *Lease) Check() error {
	at := l.held.Load()
	if at == nil {
		return fmt.Errorf("%w: it was never confirmed", ErrNotHeld)
	}
	if age := time.Since(*at); age > bus.LeaseTTL-bus.LeaseMargin {
		return fmt.Errorf("%w: last confirmed %s ago", ErrNotHeld, age.Round(time.Millisecond))
	}
	return nil
}

// Age is how long ago the lease was confirmed; negative when it never was.
func (l *Lease) Age() time.Duration {
	if at := l.held.Load(); at != nil {
		return time.Since(*at)
	}
	return -1
}

// Owner returns the name of the rackd that the ring names for a node, empty when
// no live rackd can serve it.
func (l *Lease) Owner(node, driver, group string) string {
	l.mu.Lock()
	r := l.ring
	l.mu.Unlock()
	m, _ := r.Owner(node, driver, group)
	return m.Name
}

// Members returns the live rackds in order of name.
func (l *Lease) Members() []bus.Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.members), func(a, b bus.Member) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}

// Run renews the lease and follows the ring until ctx ends, then withdraws. It
// returns ErrReplaced when a younger process has taken the name.
func (l *Lease) Run(ctx context.Context) error {
	watch, err := l.site.Alive.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", bus.AliveBucket, err)
	}
	defer watch.Stop()
	if err := l.renew(ctx); errors.Is(err, ErrReplaced) {
		return err
	}
	defer l.withdraw()
	tick := time.NewTicker(bus.LeaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := l.renew(ctx); errors.Is(err, ErrReplaced) {
				return err
			}
		case e, open := <-watch.Updates():
			if !open {
				if ctx.Err() != nil {
					return nil
				}
				return errors.New("the watch on bucket ALIVE ended")
			}
			l.apply(e)
		}
	}
}

func (l *Lease) renew(ctx context.Context) error {
	began := time.Now()
	l.self.RenewedAt = began.UTC()
	ctx, cancel := context.WithTimeout(ctx, bus.LeaseTTL)
	defer cancel()
	rev, err := l.site.Announce(ctx, l.self, l.rev)
	if errors.Is(err, bus.ErrLeaseLost) {
		if younger := l.replacedBy(ctx); younger != nil {
			return fmt.Errorf("rackd %s, started %s: %w", younger.Name, younger.StartedAt.Format(time.RFC3339), ErrReplaced)
		}
		l.log.Warn("lease had expired, announcing anew", "age", l.Age())
		rev, err = l.site.Announce(ctx, l.self, 0)
	}
	if err != nil {
		l.log.Warn("lease not renewed, trying again", "error", err, "age", l.Age())
		return err
	}
	l.rev = rev
	l.held.Store(&began)
	return nil
}

func (l *Lease) replacedBy(ctx context.Context) *bus.Member {
	e, err := l.site.Alive.Get(ctx, bus.MemberKey(l.self.Group, l.self.Name))
	if err != nil {
		return nil
	}
	var m bus.Member
	if json.Unmarshal(e.Value(), &m) != nil || m.Instance == l.self.Instance || m.StartedAt.Before(l.self.StartedAt) {
		return nil
	}
	return &m
}

func (l *Lease) withdraw() {
	l.held.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := l.site.Withdraw(ctx, l.self, l.rev); err != nil {
		l.log.Debug("lease not withdrawn; it expires by itself", "error", err)
	}
}

// apply takes in one update; nil marks the end of what was there at the start.
func (l *Lease) apply(e jetstream.KeyValueEntry) {
	if e == nil {
		l.rebuild()
		close(l.synced)
		l.changed()
		return
	}
	l.mu.Lock()
	old, had := l.members[e.Key()]
	if e.Operation() != jetstream.KeyValuePut {
		delete(l.members, e.Key())
		l.mu.Unlock()
		if had {
			l.log.Info("rackd left", "rackd", old.Name, "group", old.Group)
		}
	} else {
		var m bus.Member
		if err := json.Unmarshal(e.Value(), &m); err != nil {
			l.mu.Unlock()
			l.log.Error("unreadable ALIVE key ignored", "key", e.Key(), "error", err)
			return
		}
		l.members[e.Key()] = m
		l.mu.Unlock()
		if had && old.Instance == m.Instance {
			return // a renewal changes nothing
		}
		l.log.Info("rackd joined", "rackd", m.Name, "group", m.Group)
	}
	select {
	case <-l.synced:
		l.rebuild()
		l.changed()
	default: // the initial values are still coming
	}
}

func (l *Lease) rebuild() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ms []ring.Member
	for _, m := range l.members {
		ms = append(ms, ring.Member{Name: m.Name, Group: m.Group, Drivers: slices.Collect(maps.Keys(m.Drivers))})
	}
	l.ring = ring.New(ms)
}
