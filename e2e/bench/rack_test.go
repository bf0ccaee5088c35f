package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// busyShare is how many of a rackd's nodes are in the middle of work: one in so many.
const busyShare = 20

// rack is a conductor group under load.
type rack struct {
	*site
	*ledger
	rackds []*rackd
	nodes  []string
	busy   []string // those with work, the same share of each rackd's
}

// newRack starts rackds, each with so many nodes, and puts the load on them.
func newRack(ctx context.Context, b *testing.B, rackds, nodesEach int) *rack {
	b.Helper()
	var names []string
	for i := range rackds {
		names = append(names, fmt.Sprintf("rackd-%d", i+1))
	}
	nodes := drawNodes(names, nodesEach)
	s := newSite(b, nodes)
	r := &rack{site: s, ledger: follow(b, s), nodes: nodes}
	for _, name := range names {
		r.rackds = append(r.rackds, newRackd(b, s, name))
	}
	for _, d := range r.rackds {
		d.ready(b)
	}
	r.whole(b)
	count := map[string]int{}
	r.mu.Lock()
	for _, id := range nodes {
		if o := r.owner(id).Name; count[o] < nodesEach/busyShare {
			count[o]++
			r.busy = append(r.busy, id)
		}
	}
	r.mu.Unlock()
	r.load(ctx, b)
	return r
}

// whole waits until every rackd is a member.
func (r *rack) whole(b *testing.B) {
	b.Helper()
	r.until(b, time.Minute, "every rackd is in the ring", func() bool { return len(r.members) == len(r.rackds) })
}

// load gives work to each busy node that has none under way with the rackd that the
// ring names, and waits until all of it is. Where another rackd holds work, a newer
// request takes its place: its long step would keep it there.
func (r *rack) load(ctx context.Context, b *testing.B) {
	b.Helper()
	var g errgroup.Group
	g.SetLimit(64)
	for i, id := range r.busy {
		r.mu.Lock()
		old, known := r.works[id]
		placed := known && old.doc.Open() && old.doc.Owner == r.owner(id).Name
		r.mu.Unlock()
		if placed {
			continue
		}
		g.Go(func() error {
			next := request(id, i)
			for {
				if known {
					next.Epoch = old.doc.Epoch + 1
				}
				_, err := r.Work.Update(ctx, bus.NodeKey(group, id), encode(b, next), old.revision)
				if !bus.Conflict(err) {
					return err
				}
				r.mu.Lock()
				old = r.works[id] // its rackd has written it meanwhile
				r.mu.Unlock()
			}
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	r.until(b, 2*time.Minute, "all work is under way where it belongs", func() bool {
		for _, id := range r.busy {
			if e := r.works[id]; !underWay(&e.doc) || e.doc.Owner != r.owner(id).Name {
				return false
			}
		}
		return true
	})
}

// held returns the work that a rackd holds, by node.
func (r *rack) held(by string) map[string]work.Document {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]work.Document{}
	for id, e := range r.works {
		if e.doc.Owner == by {
			out[id] = e.doc
		}
	}
	return out
}

// loss is what it took until everything that a rackd did was done by others.
type loss struct {
	expired time.Duration // until the bus said that it is gone
	taken   time.Duration // until the last piece of its work had a new owner
	served  time.Duration // until each node of a sample was answered for
}

// lose ends a rackd by a signal and measures what follows. It fails when work did not
// go on where it stood.
func (r *rack) lose(ctx context.Context, b *testing.B, victim *rackd, s syscall.Signal) loss {
	b.Helper()
	works := r.held(victim.name)
	sample := r.sample(victim.name, works)
	var out loss
	var served atomic.Int64
	var asking sync.WaitGroup
	defer asking.Wait()

	began := time.Now()
	if err := victim.cmd.Process.Signal(s); err != nil {
		b.Fatal(err)
	}
	for _, id := range sample {
		asking.Go(func() {
			at := r.answered(ctx, b, id, victim.name).Sub(began)
			for old := served.Load(); int64(at) > old && !served.CompareAndSwap(old, int64(at)); old = served.Load() {
			}
		})
	}
	out.expired = r.until(b, time.Minute, victim.name+" has left the ring", func() bool {
		_, there := r.members[victim.name]
		return !there
	}).Sub(began)
	out.taken = r.until(b, time.Minute, "all its work has been taken", func() bool {
		for id := range works {
			if o := r.works[id].doc.Owner; o == victim.name || o == "" {
				return false
			}
		}
		return true
	}).Sub(began)
	asking.Wait()
	out.served = time.Duration(served.Load())
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, before := range works {
		if now := r.works[id].doc; now.ID != before.ID || now.Epoch != before.Epoch+1 || now.Checkpoint.Step != before.Checkpoint.Step ||
			string(now.Checkpoint.Handle) != string(before.Checkpoint.Handle) || !now.Open() {
			b.Errorf("node %s: the work does not go on where it stood:\nbefore %+v\nnow %+v", id, before, now)
		}
	}
	<-victim.ended
	return out
}

// sampleSize is how many busy and how many idle nodes are asked about.
const sampleSize = 4

func (r *rack) sample(of string, works map[string]work.Document) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	idle, busy := 0, 0
	for _, id := range r.nodes {
		if r.owner(id).Name != of {
			continue
		}
		counter := &idle
		if _, ok := works[id]; ok {
			counter = &busy
		}
		if *counter++; *counter <= sampleSize {
			ids = append(ids, id)
		}
	}
	return ids
}

// answered asks about a node until another rackd than the old owner answers, the way
// central does.
func (r *rack) answered(ctx context.Context, b *testing.B, id, old string) time.Time {
	q := encode(b, ask.Request{Method: ask.Validate, Node: id})
	for ctx.Err() == nil {
		r.mu.Lock()
		m := r.owner(id)
		r.mu.Unlock()
		if m.Name != "" && m.Name != old {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			reply, err := r.Conn.RequestWithContext(ctx, bus.AskSubject(m.Group, m.Name), q)
			cancel()
			if err == nil && good(reply.Data) {
				return time.Now()
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Now()
}

// restore starts a lost rackd again and gives its work back to it.
func (r *rack) restore(ctx context.Context, b *testing.B, victim *rackd) {
	b.Helper()
	victim.start(b)
	victim.ready(b)
	r.whole(b)
	r.load(ctx, b)
}

// quantile of times, by nearest rank.
func quantile(times []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(times))
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)].Seconds()
}
