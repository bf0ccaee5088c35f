package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// cut queues what racks report while the WAN is cut: the deploys of nodes, each with
// phases, the node's states and its end, mixed with each other but in order for each
// node. It returns how many events there are.
func cut(t testing.TB, site *bus.Site, works []*store.Work, phases int) int {
	t.Helper()
	n := 0
	queue := func(e work.Event) {
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := site.JS.PublishAsync(bus.EventSubject("", e.Node), body, jetstream.WithMsgID(e.ID)); err != nil {
			t.Fatal(err)
		}
		n++
	}
	for seq := uint64(1); seq <= uint64(phases)+2; seq++ {
		for _, w := range works {
			e := about(w, work.PhaseEntered, seq)
			switch e.Phase = fmt.Sprintf("phase %d", seq); seq {
			case 1:
				e.Kind, e.State, e.Target = work.StateChanged, provision.DeployWait, provision.Active
			case uint64(phases) + 2:
				e.Kind, e.State = work.WorkEnded, provision.Active
			}
			queue(e)
		}
	}
	select {
	case <-site.JS.PublishAsyncComplete():
	case <-time.After(time.Minute):
		t.Fatal("the events are not stored")
	}
	return n
}

// deploys inserts nodes whose deploys have been accepted.
func deploys(t testing.TB, s *store.Store, n int) []*store.Work {
	t.Helper()
	var works []*store.Work
	err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		for i := range n {
			node := storetest.NewNode(fmt.Sprintf("n%d", i))
			if err := tx.InsertNode(ctx, node); err != nil {
				return err
			}
			node.Accept(provision.Deploying, provision.Active, time.Now())
			w := storetest.NewWork(node, work.Deploy)
			if err := tx.UpdateNode(ctx, node); err != nil {
				return err
			}
			if err := tx.InsertWork(ctx, w); err != nil {
				return err
			}
			works = append(works, w)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return works
}

// After a WAN cut everything arrives once and in order for each node, in batches that
// are bounded.
func TestQueueAfterACut(t *testing.T) {
	const nodes, phases = 40, 8
	f := newFixture(t)
	works := deploys(t, f.store, nodes)
	events := cut(t, f.site, works, phases)
	before, began := f.store.Statements(), time.Now()
	f.follow()
	f.drained()
	statements, took := f.store.Statements()-before, time.Since(began)
	for _, w := range works {
		list, err := f.store.History(t.Context(), store.HistoryQuery{Node: w.Node})
		if err != nil || len(list) != phases+2 {
			t.Fatalf("node %s: %d lines of history, error %v, want %d", w.Node, len(list), err, phases+2)
		}
		for i, h := range list {
			if h.Phase != fmt.Sprintf("phase %d", i+1) {
				t.Errorf("node %s: line %d is %q", w.Node, i+1, h.Phase)
			}
		}
		if n := f.node(w.Node); n.ProvisionState != provision.Active || n.WorkID != "" {
			t.Errorf("node %s is %s, work %q", w.Node, n.ProvisionState, n.WorkID)
		}
	}
	// Batches of 256, or of what comes within 25 ms, which on a busy machine is less: five
	// statements each, and what is read to see how far it is.
	if most := uint64(6 * (events/256 + 2 + int(took/(25*time.Millisecond)))); statements > most {
		t.Errorf("%d events took %d statements in %v, want %d at most", events, statements, took, most)
	}
	t.Logf("%d events took %d statements in %v", events, statements, took)
}

// BenchmarkDrain applies the events that queued during a WAN cut: 1,000, of 50 deploys.
func BenchmarkDrain(b *testing.B) {
	var total, took float64
	for b.Loop() {
		b.StopTimer()
		s, site := storetest.Open(b, storetest.SQLite(b)), bustest.Open(b)
		events := cut(b, site, deploys(b, s, 50), 18)
		in := ingest.New(ingest.Config{Store: s, Metrics: metrics.New(s.Statements), Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(b.Context())
		var g errgroup.Group
		began := time.Now()
		b.StartTimer()
		g.Go(func() error { return in.Follow(ctx, site) })
		if err := in.Drained(ctx); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		took += time.Since(began).Seconds()
		total += float64(events)
		cancel()
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(total/took, "events/s")
}
