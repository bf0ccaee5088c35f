// Package lease is a rackd's membership: it renews the rackd's ALIVE key, says at
// any moment whether the lease still holds, and follows who else lives, as a ring.
//
// It may import protocol only. Invariant: Check returns nil only while less than
// LeaseTTL − LeaseMargin has passed, on each of this machine's clocks, since before
// the last renewal that the bus confirmed. So a paused process, a suspended machine and
// a cut link all make it fail before another rackd can see the key expire; a wall clock
// that is set back changes nothing.
//
// Check does not see that a hypervisor stops a virtual machine, all clocks with it: when the
// machine goes on, its clocks say that no time has passed. Confirm sees it, because it asks
// the bus. So writes to machines wait for Confirm, and what can be taken back asks Check.
//
// A lease is one announcement with its renewals, under an id of its own: whoever asks
// whether an owner is dead asks whether the very lease has ended under which that
// owner took the work.
package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/ring"
	"github.com/ironyard/ironyard/protocol/trouble"
)

// ErrNotHeld means that the lease is not confirmed: start no side effect.
var ErrNotHeld = errors.New("this rackd's lease is not confirmed")

// ErrReplaced means that another process runs under this rackd's name and holds its
// lease.
var ErrReplaced = errors.New("another rackd with this name runs; give each rackd a name of its own")

// Groups knows which conductor groups stand in for which (rackd/failover).
type Groups interface {
	Of(group string) []string
	Serves(by, group string) bool
}

// Lease is safe for concurrent use.
type Lease struct {
	site     *bus.Site
	self     bus.Member
	groups   Groups
	log      *slog.Logger
	changed  func()
	need     func(node string) ring.Need // for a node's document; nil: nothing
	keys     func() map[string][]string  // the ids of this rackd's; nil: it does not say
	fit      func() error                // nil: this rackd can be trusted with its nodes
	rev      uint64                      // of the key
	known    bool                        // the key was at rev, under this lease or free
	rival    rival                       // who holds the name instead
	born     time.Time                   // when the first lease began
	id       atomic.Pointer[string]      // of the lease; nil before the first
	held     atomic.Pointer[time.Time]   // start of the newest confirmed renewal
	renewing trouble.Spell               // of renewals that fail
	// heldBoot is held by the clock boot; sentBoot that of the renewal that is on its way.
	heldBoot atomic.Int64
	sentBoot time.Duration
	boot     func() time.Duration
	settle   atomic.Pointer[time.Time] // until when others may still be coming back

	mu        sync.Mutex
	members   map[string]bus.Member // by key
	seen      map[string]time.Time  // by key, when its last sign of life came
	withdrawn map[string]bus.Member // by key, as it was last seen to give its lease up
	absent    map[string]absence    // by key, of those who did not withdraw
	came      map[string]time.Time  // by key, when who lives was first seen, or seen again
	stored    map[string]time.Time  // by key, when the bus stored that, by its clock
	ring      *ring.Ring
	reading   bool // the bucket is being read from its start
	synced    chan struct{}
	progress  progress
	next      *round        // for callers of Confirm; nil while none waits
	wanted    chan struct{} // asks Run for that renewal
	later     *time.Timer   // builds the ring in a moment; nil: it is as the members are

	turns *rate.Limiter // of the ring
	loud  *rate.Limiter // of the lines about members
	told  *rate.Limiter // of what central is told of the dead
	// confirms bounds the renewals for callers of Confirm.
	confirms *rate.Limiter
}

// New prepares a lease for self; changed is called, from Run's goroutines, after
// each change of the ring, and when a lease that had been lost is held again. While fit
// returns an error the lease is not renewed: what this rackd knows may be out of date,
// and another one is to go on.
func New(site *bus.Site, self bus.Member, groups Groups, fit func() error, changed func(), log *slog.Logger) *Lease {
	self.Instance, self.Edition = uuid.NewString(), 1
	self.StartedAt = time.Now().UTC()
	return &Lease{site: site, self: self, groups: groups, fit: fit, log: log, changed: changed, boot: sinceBoot,
		members: map[string]bus.Member{}, seen: map[string]time.Time{}, withdrawn: map[string]bus.Member{}, absent: map[string]absence{}, came: map[string]time.Time{}, stored: map[string]time.Time{}, ring: ring.New(nil),
		synced: make(chan struct{}), wanted: make(chan struct{}, 1), turns: rate.NewLimiter(rate.Every(turnsEvery), turnsAtOnce), loud: rate.NewLimiter(linesEach, linesAtOnce), told: rate.NewLimiter(toldEach, toldAtOnce), confirms: rate.NewLimiter(rate.Every(confirmPause), confirmsAtOnce), progress: progress{sent: map[int64]time.Time{}}}
}

// Synced is closed once the first ring is known.
func (l *Lease) Synced() <-chan struct{} { return l.synced }

// Check returns nil while the lease is held, else an error that wraps ErrNotHeld.
func (l *Lease) Check() error {
	at := l.held.Load()
	if at == nil {
		return fmt.Errorf("%w: it was never confirmed", ErrNotHeld)
	}
	if age := l.age(*at); age > bus.LeaseTTL-bus.LeaseMargin {
		return fmt.Errorf("%w: last confirmed %s ago", ErrNotHeld, age.Round(time.Millisecond))
	}
	return nil
}

// Age is how long ago the lease was confirmed; negative when it never was.
func (l *Lease) Age() time.Duration {
	if at := l.held.Load(); at != nil {
		return l.age(*at)
	}
	return -1
}

// Needs has Owner leave out, for each node, the rackds that cannot read its document: f says what they
// need. It is called before Run.
func (l *Lease) Needs(f func(node string) ring.Need) { l.need = f }

// Keys has each renewal say which keys this rackd has: the ids that f returns, by conductor group. It
// is called before Run.
func (l *Lease) Keys(f func() map[string][]string) { l.keys = f }

// Owner returns the name of the rackd that the ring names for a node, empty when
// no live rackd can serve it. A namesake of this rackd in another group is not this
// rackd: of it the key in ALIVE is returned.
func (l *Lease) Owner(node, driver, group string) string {
	l.mu.Lock()
	r := l.ring
	l.mu.Unlock()
	var need ring.Need
	if l.need != nil {
		need = l.need(node)
	}
	m, ok := r.OwnerOf(need, node, driver, group, l.groups.Of(group)...)
	if !ok && need.Key != "" {
		// No rackd has the key. Those that held the document's predecessor go on with it: work that
		// runs must not stop because all of them are late.
		m, _ = r.OwnerOf(ring.Need{Form: need.Form}, node, driver, group, l.groups.Of(group)...)
	}
	if m.Name == l.self.Name && bus.MemberKey(m.Group, m.Name) != l.key() {
		return bus.MemberKey(m.Group, m.Name)
	}
	return m.Name
}

// key is this rackd's in ALIVE.
func (l *Lease) key() string { return bus.MemberKey(l.self.Group, l.self.Name) }

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
	for key, seen := range l.seen {
		if strings.HasSuffix(key, "."+bus.GroupToken(name)) && seen.After(at) {
			at, ok = seen, true
		}
	}
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
