package lease

import (
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// settleTime is how long after its lease began, or began again, or after the members
// had to be read anew, a rackd takes nothing from those who seem dead: by then a lease
// that was held before is over by its holder's own clock.
const settleTime = bus.LeaseTTL - bus.LeaseMargin

// Ended reports whether the lease under which the rackd of that name took work of group
// is certainly over: it was seen to be withdrawn, or its holder may not serve the group,
// or the ring has settled and does not show it. known is when this rackd learnt of that
// lease; until the watch on ALIVE is past that moment the lease may be one that it has
// not shown yet.
func (l *Lease) Ended(name, lease, group string, known time.Time) bool {
	if l.Check() != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		if m.Name == name && (lease == "" || m.Lease == lease) && l.groups.Serves(m.Group, group) {
			return false
		}
	}
	for _, m := range l.withdrawn {
		if m.Name == name && lease != "" && m.Lease == lease && l.groups.Serves(m.Group, group) {
			return true
		}
	}
	if l.settle.Load() != nil {
		return false
	}
	if !l.progress.caughtUp.After(known) {
		l.progress.awaited = true
		return false
	}
	return true
}

// Elsewhere reports whether a living rackd of this one's name, in another conductor group,
// holds that lease: what was taken under it is that rackd's.
func (l *Lease) Elsewhere(lease string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, m := range l.members {
		if m.Name == l.self.Name && key != l.key() && m.Lease == lease {
			return true
		}
	}
	return false
}

// progress is how far the watch on ALIVE has come, measured by this rackd's own
// renewals: what was announced before one of them was sent lies before it in the
// bucket. It belongs to Lease.mu.
type progress struct {
	sent map[int64]time.Time // RenewedAt of a renewal not yet shown → just before it was sent
	// shown is when the newest renewal that the watch has shown was sent. It may have
	// skipped what others announced before that, if they have renewed it since.
	shown time.Time
	// caughtUp is the shown of the last moment at which the watch had nothing left to
	// show: what was announced before that, it has shown or seen end.
	caughtUp time.Time
	awaited  bool // somebody waits for caughtUp to move
}

// sentAtMost bounds the renewals that are remembered while the watch shows none: those of five
// seconds in which Confirm asks for one after the other.
const sentAtMost = 256

// sending remembers a renewal that is about to be sent.
func (l *Lease) sending(renewed, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.progress.sent) >= sentAtMost {
		clear(l.progress.sent)
	}
	l.progress.sent[renewed.UnixNano()] = began
}

// show takes in that the watch has shown m, left to come when the bus sent it. It
// reports whether somebody waited for that.
func (l *Lease) show(m *bus.Member, left uint64) (awaited bool) {
	p := &l.progress
	if began, ours := p.sent[m.RenewedAt.UnixNano()]; ours && m.Instance == l.self.Instance {
		p.shown = began
		for at, sent := range p.sent {
			if !sent.After(began) {
				delete(p.sent, at)
			}
		}
	}
	if left > 0 || !p.shown.After(p.caughtUp) {
		return false
	}
	p.caughtUp = p.shown
	awaited, p.awaited = p.awaited, false
	return awaited
}

// ID is the id of the newest lease, empty before the first. What was owned under
// another one may have been taken by others meanwhile. Ask it after Check.
func (l *Lease) ID() string {
	if id := l.id.Load(); id != nil {
		return *id
	}
	return ""
}
