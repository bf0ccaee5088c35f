package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/ring"
)

// reader is what bus.Follow tells.
type reader struct{ *Lease }

// Begin is told before everything is read. Unless it is the first time, the bucket has
// lost something or was not followed for a while: those who live may hold their leases
// still without being in it.
func (r reader) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = true
	select {
	case <-r.synced:
		r.unsettle()
	default:
	}
}

// Synced is told when the bucket has been read. What it lost without a marker is
// gone: those who live have announced themselves anew.
func (r reader) Synced(missing []string) {
	r.mu.Lock()
	r.reading = false
	for _, key := range missing {
		r.left(r.members[key])
		delete(r.members, key)
	}
	r.mu.Unlock()
	r.rebuild()
	select {
	case <-r.synced:
		r.unsettle()
	default:
		close(r.synced)
	}
	r.changed()
}

// Apply takes in one change.
func (r reader) Apply(e jetstream.KeyValueEntry) {
	l := r.Lease
	var m bus.Member
	living := e.Operation() == jetstream.KeyValuePut
	if living {
		var err error
		if m, err = bus.ReadMember(e.Key(), e.Value()); err != nil {
			l.site.Refuse(l.log, bus.AliveBucket, e.Key(), err)
			return
		}
	}
	l.mu.Lock()
	old, had := l.members[e.Key()]
	// A lease that runs out was there for as long as it lasts. Who ends its own sooner, again and again, is not told of: that
	// would use up what may be told.
	// Of a busy rackd that sees both late, the bus's clock still tells how long it was.
	lasted := max(time.Since(l.came[e.Key()]), e.Created().Sub(l.stored[e.Key()]))
	expired := had && !living && e.Operation() != jetstream.KeyValueDelete && !l.reading && lasted >= bus.LeaseTTL-bus.LeaseMargin
	if living {
		if !had || old.Lease != m.Lease {
			l.came[e.Key()], l.stored[e.Key()] = time.Now(), e.Created()
		}
		delete(l.absent, e.Key())
		l.members[e.Key()], l.seen[e.Key()] = m, time.Now()
	} else {
		delete(l.members, e.Key())
		if had && e.Operation() == jetstream.KeyValueDelete && !l.reading {
			// Only what is seen to happen proves that: a bus that is read anew may be an
			// older copy of itself.
			l.withdrawn[e.Key()], l.seen[e.Key()] = old, time.Now()
		} else if had {
			l.left(old)
		}
	}
	awaited := l.show(&m, e.Delta())
	l.mu.Unlock()
	switch {
	case living && had && old.Instance == m.Instance && old.Lease == m.Lease && !bus.SameKeys(old.Keys, m.Keys):
		l.say(func() { l.log.Info("rackd has other keys", "rackd", m.Name, "group", m.Group, "keys", m.Keys) })
	case living && had && old.Instance == m.Instance && old.Lease == m.Lease, !living && !had: // a renewal changes nothing
		if awaited {
			l.changed()
		}
		return
	case living:
		l.say(func() { l.log.Info("rackd joined", "rackd", m.Name, "group", m.Group) })
	default:
		if expired && l.told.Allow() {
			l.site.BeatGone(e.Key())
		}
		l.say(func() { l.log.Info("rackd left", "rackd", old.Name, "group", old.Group) })
	}
	select {
	case <-l.synced:
		l.turn()
	default: // the initial values are still coming
	}
}

// left notes who is not there any more without having said so. Its caller holds mu.
func (l *Lease) left(m bus.Member) {
	key := bus.MemberKey(m.Group, m.Name)
	l.absent[key] = absence{m.Group, l.seen[key]}
}

// The changes of the ring that count at once: in a rack a few rackds come or go. A stolen one may be another each time that it
// announces itself, as often as the bus takes it; then what has changed counts together, a little later.
const (
	turnsAtOnce = 20
	turnsEvery  = 100 * time.Millisecond
)

// Lines about who comes and goes: at once, and in each second after that.
const (
	linesAtOnce = 100
	linesEach   = 10
)

// What central is told of rackds whose leases have run out, at once and in each second after that: it finds the others itself,
// a little later.
const (
	toldAtOnce = 20
	toldEach   = 2
)

func (l *Lease) say(line func()) {
	if l.loud.Allow() {
		line()
	}
}

// turn takes in that the members are others.
func (l *Lease) turn() {
	if l.turns.Allow() {
		l.rebuild()
		l.changed()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.later == nil {
		l.later = time.AfterFunc(turnsEvery, l.turnLate)
	}
}

func (l *Lease) turnLate() {
	l.mu.Lock()
	wanted := l.later != nil // Run goes on
	l.later = nil
	l.mu.Unlock()
	if wanted {
		l.rebuild()
		l.changed()
	}
}

// stopTurning takes back a turn that is to come. It is called when nothing follows the members any more.
func (l *Lease) stopTurning() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.later != nil {
		l.later.Stop()
		l.later = nil
	}
}

func (l *Lease) rebuild() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ms []ring.Member
	for _, m := range l.members {
		ms = append(ms, ring.Member{Name: m.Name, Group: m.Group, Drivers: slices.Collect(maps.Keys(m.Drivers)), Documents: m.Documents, Keys: m.Keys})
	}
	l.ring = ring.New(ms)
}
