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
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/ring"
)

// ErrNotHeld means that the lease is not confirmed: start no side effect.
var ErrNotHeld = errors.New("this rackd's lease is not confirmed")

// ErrReplaced means that a younger process runs under this rackd's name.
var ErrReplaced = errors.New("another rackd with this name has started")

// Groups knows which conductor groups stand in for which (rackd/failover).
type Groups interface {
	Of(group string) []string
	Serves(by, group string) bool
}

// Lease is safe for concurrent use.
type Lease struct {
	site    *bus.Site
	self    bus.Member
	groups  Groups
	log     *slog.Logger
	changed func()
	rev     uint64
	held    atomic.Pointer[time.Time] // start of the newest confirmed renewal
	tenure  atomic.Uint64             // counts the times that the lease began
	settle  atomic.Pointer[time.Time] // until when others may still be coming back

	mu      sync.Mutex
	members map[string]bus.Member // by key
	seen    map[string]time.Time  // name → when its last sign of life came
	left    map[string]bool       // names that were seen to withdraw, until they return
	ring    *ring.Ring
	reading bool // the bucket is being read from its start
	synced  chan struct{}
}

// New prepares a lease for self; changed is called, from Run's goroutines, after
// each change of the ring, and when a lease that had been lost is held again.
func New(site *bus.Site, self bus.Member, groups Groups, changed func(), log *slog.Logger) *Lease {
	self.Instance = uuid.NewString()
	self.StartedAt = time.Now().UTC()
	return &Lease{site: site, self: self, groups: groups, log: log, changed: changed,
		members: map[string]bus.Member{}, seen: map[string]time.Time{}, left: map[string]bool{}, ring: ring.New(nil), synced: make(chan struct{})}
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

// settleTime is how long after its lease began, or began again, or after the members
// had to be read anew, a rackd takes nothing from those who seem dead: by then a lease
// that was held before is over by its holder's own clock.
const settleTime = bus.LeaseTTL - bus.LeaseMargin

// Gone reports whether a rackd of that name certainly serves no nodes of group any
// more: it has withdrawn, or may not serve them, or is not among the members of a ring
// that has settled.
func (l *Lease) Gone(name, group string) bool {
	if l.Check() != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		if m.Name == name && l.groups.Serves(m.Group, group) {
			return false
		}
	}
	return l.left[name] || l.settle.Load() == nil
}

// Tenure changes when the lease has lapsed and begins again: what was owned under
// another tenure may have been taken by others meanwhile. Ask it after Check.
func (l *Lease) Tenure() uint64 { return l.tenure.Load() }

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
	m, _ := r.Owner(node, driver, group, l.groups.Of(group)...)
	return m.Name
}

// Member returns the live rackd of that name.
func (l *Lease) Member(name string) (bus.Member, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		if m.Name == name {
			return m, true
		}
	}
	return bus.Member{}, false
}

// LastSeen is when the last sign of life of a rackd came, living or not; ok is false
// when it was never seen.
func (l *Lease) LastSeen(name string) (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok = l.seen[name]
	return at, ok
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
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.site.Follow(ctx, bus.AliveBucket, ">", reader{l}) })
	g.Go(func() error {
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
			}
		}
	})
	return g.Wait()
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
	lapsed := l.Check() != nil
	if lapsed {
		l.tenure.Add(1) // before anybody can find the lease held
	}
	l.held.Store(&began)
	switch until := l.settle.Load(); {
	case lapsed:
		// Where the bus was away for everybody, the others announce themselves anew
		// within a renewal: they are not taken for dead before that.
		l.unsettle()
		l.changed() // what had to rest may go on
	case until != nil && time.Now().After(*until):
		l.settle.Store(nil)
		l.changed()
	}
	return nil
}

func (l *Lease) unsettle() {
	later := time.Now().Add(settleTime)
	l.settle.Store(&later)
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

// reader is what bus.Follow tells.
type reader struct{ *Lease }

// Begin is told before everything is read.
func (r reader) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = true
}

// Synced is told when the bucket has been read. What it lost without a marker is
// gone: those who live have announced themselves anew.
func (r reader) Synced(missing []string) {
	r.mu.Lock()
	r.reading = false
	for _, key := range missing {
		delete(r.members, key)
	}
	r.mu.Unlock()
	if len(missing) > 0 {
		r.unsettle() // they may hold their leases still, and not know of the loss yet
	}
	r.rebuild()
	select {
	case <-r.synced:
	default:
		close(r.synced)
	}
	r.changed()
}

// Apply takes in one change.
func (r reader) Apply(e jetstream.KeyValueEntry) {
	l := r.Lease
	l.mu.Lock()
	old, had := l.members[e.Key()]
	if e.Operation() != jetstream.KeyValuePut {
		delete(l.members, e.Key())
		if had && e.Operation() == jetstream.KeyValueDelete && !l.reading {
			// Only what is seen to happen proves that: a bus that is read anew may be an
			// older copy of itself.
			l.left[old.Name], l.seen[old.Name] = true, time.Now()
		}
		l.mu.Unlock()
		if !had {
			return
		}
		l.log.Info("rackd left", "rackd", old.Name, "group", old.Group)
	} else {
		var m bus.Member
		if err := json.Unmarshal(e.Value(), &m); err != nil {
			l.mu.Unlock()
			l.log.Error("unreadable ALIVE key ignored", "key", e.Key(), "error", err)
			return
		}
		l.members[e.Key()], l.seen[m.Name] = m, time.Now()
		delete(l.left, m.Name)
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
