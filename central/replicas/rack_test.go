package replicas

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// rack is the smallest rackd there can be: it is alive, takes all work at once, ends it
// well, and counts.
type rack struct {
	t    *testing.T
	site *bus.Site

	mu   sync.Mutex
	done map[string]int // work → how often it was carried out
}

func newRack(t *testing.T, srv *server.Server) *rack {
	t.Helper()
	conn, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	site, err := bus.Open(t.Context(), conn, "", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rack{t: t, site: site, done: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.live(ctx) })
	running.Go(func() { r.work(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); conn.Close() })
	return r
}

// live renews the rack's lease.
func (r *rack) live(ctx context.Context) {
	impl := map[string][]string{}
	for _, kind := range node.InterfaceKinds {
		impl[kind] = []string{"fake"}
	}
	m := bus.Member{Name: "rack", Instance: "1", Documents: node.Format, Drivers: map[string]map[string][]string{"fake-hardware": impl}}
	tick := time.NewTicker(bus.LeaseRenew)
	defer tick.Stop()
	for {
		m.RenewedAt = time.Now()
		_, rev, err := r.site.Announced(ctx, m.Group, m.Name)
		if err == nil {
			_, err = r.site.Announce(ctx, m, rev)
		}
		if err != nil && ctx.Err() == nil {
			r.t.Errorf("the rack's lease: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// work carries out what comes to the site.
func (r *rack) work(ctx context.Context) {
	watch, err := r.site.Work.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		r.t.Errorf("watch the work: %v", err)
		return
	}
	defer watch.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-watch.Updates():
			var d work.Document
			if e == nil || json.Unmarshal(e.Value(), &d) != nil || !d.Open() || d.Owner != "" {
				continue
			}
			running.Go(func() {
				if err := r.carryOut(ctx, d, e.Revision()); err != nil && ctx.Err() == nil {
					r.t.Errorf("work %s: %v", d.ID, err)
				}
			})
		}
	}
}

// carryOut takes, does, ends and reports a piece of work as a rackd does.
func (r *rack) carryOut(ctx context.Context, d work.Document, revision uint64) error {
	d.Owner, d.Epoch = "rack", d.Epoch+1
	write := func() (err error) {
		body, err := json.Marshal(d)
		if err != nil {
			return err
		}
		revision, err = r.site.Work.Update(ctx, bus.NodeKey(d.Group, d.Node), body, revision)
		return err
	}
	report := func(kind work.EventKind) error {
		d.Seq++
		body, err := json.Marshal(work.Event{ID: work.EventID(d.ID, d.Epoch, d.Seq), Kind: kind, Node: d.Node, Rackd: "rack", Time: time.Now().UTC(),
			Work: d.ID, Verb: d.Verb, Generation: d.Generation, Epoch: d.Epoch, Seq: d.Seq, State: d.State, Target: d.Target, Phase: string(kind)})
		if err != nil {
			return err
		}
		_, err = r.site.JS.Publish(ctx, bus.EventSubject(d.Group, d.Node), body)
		return err
	}
	if err := write(); err != nil {
		return err
	}
	r.mu.Lock()
	r.done[d.ID]++
	r.mu.Unlock()
	for _, kind := range []work.EventKind{work.StateChanged, work.PhaseEntered} {
		if err := report(kind); err != nil {
			return err
		}
	}
	d.Result = &work.Result{OK: true, At: time.Now().UTC()}
	if err := write(); err != nil {
		return err
	}
	return report(work.WorkEnded)
}

// linesOfWork is what the history holds of each piece of work: that it was accepted, and
// what carryOut reports.
const linesOfWork = 4

// times returns how often a piece of work was carried out.
func (r *rack) times(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done[id]
}
