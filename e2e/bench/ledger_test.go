package bench

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/ring"
	"github.com/ironyard/ironyard/protocol/work"
)

// ledger is what WORK and ALIVE show, as central would see it.
type ledger struct {
	mu      sync.Mutex
	works   map[string]entry // by node
	members map[string]bus.Member
	renewed map[string]time.Time // by rackd: when its newest renewal came
	ring    *ring.Ring
	changed chan struct{} // closed at the next change
}

type entry struct {
	doc      work.Document
	revision uint64
}

// follow starts a ledger of the site, for as long as the benchmark lasts.
func follow(b *testing.B, s *site) *ledger {
	b.Helper()
	l := &ledger{works: map[string]entry{}, members: map[string]bus.Member{}, renewed: map[string]time.Time{}, ring: ring.New(nil),
		changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var followers sync.WaitGroup
	followers.Go(func() { s.Follow(ctx, bus.WorkBucket, bus.GroupToken(group)+".>", works{l}) })
	followers.Go(func() { s.Follow(ctx, bus.AliveBucket, ">", alive{l}) })
	b.Cleanup(func() { cancel(); followers.Wait() })
	return l
}

func (l *ledger) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// until returns the moment at which cond, which is called with the ledger locked, first
// held.
func (l *ledger) until(b *testing.B, limit time.Duration, what string, cond func() bool) time.Time {
	b.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		l.mu.Lock()
		ok, changed := cond(), l.changed
		l.mu.Unlock()
		if ok {
			return time.Now()
		}
		select {
		case <-changed:
		case <-end.C:
			b.Fatalf("not so within %s: %s", limit, what)
		}
	}
}

// owner is the rackd that the ring names for a node; the ledger must be locked.
func (l *ledger) owner(id string) bus.Member {
	m, _ := l.ring.Owner(id, driverName, group)
	return l.members[m.Name]
}

// works reads WORK.
type works struct{ *ledger }

func (works) Begin()          {}
func (works) Synced([]string) {}

func (w works) Apply(e jetstream.KeyValueEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	id := bus.NodeOfKey(e.Key())
	var d work.Document
	if e.Operation() != jetstream.KeyValuePut || json.Unmarshal(e.Value(), &d) != nil {
		delete(w.works, id)
		return
	}
	w.works[id] = entry{d, e.Revision()}
}

// alive reads ALIVE.
type alive struct{ *ledger }

func (alive) Begin()          {}
func (alive) Synced([]string) {}

func (a alive) Apply(e jetstream.KeyValueEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := bus.NodeOfKey(e.Key())
	if e.Operation() != jetstream.KeyValuePut {
		delete(a.members, name)
	} else {
		var m bus.Member
		if json.Unmarshal(e.Value(), &m) != nil {
			return
		}
		_, known := a.members[name]
		a.members[name], a.renewed[name] = m, time.Now()
		if known {
			return
		}
	}
	var ms []ring.Member
	for _, m := range a.members {
		ms = append(ms, ring.Member{Name: m.Name, Group: m.Group, Drivers: []string{driverName}})
	}
	a.ring = ring.New(ms)
	a.wake()
}
