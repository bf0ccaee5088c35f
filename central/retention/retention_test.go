package retention_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/central/retention"
	"github.com/ironyard/ironyard/central/store"
)

// rows has nodes with so many lines and old works each.
type rows struct {
	nodes  map[string]*store.Surplus
	order  []string
	fail   atomic.Bool
	counts int
	since  time.Time
}

func (r *rows) Surpluses(_ context.Context, after string, ended time.Time, limit int) (list []store.Surplus, err error) {
	if r.fail.Load() {
		return nil, errors.New("the database is away")
	}
	r.counts, r.since = r.counts+1, ended
	for _, id := range r.order {
		if id > after && len(list) < limit {
			s := *r.nodes[id]
			if ended.IsZero() {
				s.OldWorks = 0
			}
			list = append(list, s)
		}
	}
	return list, nil
}

func (r *rows) PruneHistory(_ context.Context, node string, keep, limit int) (int64, error) {
	n := min(r.nodes[node].History-keep, limit)
	r.nodes[node].History -= n
	return int64(n), nil
}

func (r *rows) PruneWorks(_ context.Context, node string, _ time.Time, limit int) (int64, error) {
	n := min(r.nodes[node].OldWorks, limit)
	r.nodes[node].OldWorks -= n
	return int64(n), nil
}

// byThisHost judges ages by this host's clock.
func byThisHost(_ context.Context, keep time.Duration) (time.Time, bool, error) {
	return time.Now().Add(-keep), true, nil
}

func some(n int) *rows {
	r := &rows{nodes: map[string]*store.Surplus{}}
	for i := range n {
		id := fmt.Sprintf("%05d", i)
		r.order, r.nodes[id] = append(r.order, id), &store.Surplus{Node: id, History: 700 + i, OldWorks: 500}
	}
	return r
}

// All nodes are gone through, and nothing is removed but what is too much or too old. A database that is away is
// asked again in the next round.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := some(250)
		r.fail.Store(true)
		removed := map[string]int64{}
		p := retention.New(retention.Config{Rows: r, Before: byThisHost, Log: slog.New(slog.DiscardHandler), Removed: func(kind string, n int64) { removed[kind] += n }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.fail.Store(false)
		time.Sleep(2 * time.Hour)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for id, s := range r.nodes {
			if s.History != 300 || s.OldWorks != 0 {
				t.Errorf("node %s: %+v", id, s)
			}
		}
		if want := int64(250*400 + 250*249/2); removed["history"] != want || removed["works"] != 250*500 {
			t.Errorf("told of %v, want %d lines and %d works", removed, want, 250*500)
		}
		if ago := time.Since(r.since).Round(time.Hour); ago < retention.DefaultWorks || ago > retention.DefaultWorks+2*time.Hour {
			t.Errorf("works are kept for %s", ago)
		}
	})
}

// Each of the two can be kept for ever.
func TestKeptForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			cfg            retention.Config
			history, works int
		}{"history": {retention.Config{History: -1}, 700, 0}, "works": {retention.Config{Works: -1}, 300, 500}, "other numbers": {retention.Config{History: 10, Works: time.Hour}, 10, 0}} {
			r := some(1)
			c.cfg.Rows, c.cfg.Before, c.cfg.Log = r, byThisHost, slog.New(slog.DiscardHandler)
			if err := retention.New(c.cfg).Round(t.Context()); err != nil {
				t.Error(err)
			}
			if s := r.nodes["00000"]; s.History != c.history || s.OldWorks != c.works {
				t.Errorf("%s: %+v, want %d and %d", name, s, c.history, c.works)
			}
		}
		r := some(1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		if err := retention.New(retention.Config{Rows: r, Before: byThisHost, Log: slog.New(slog.DiscardHandler), History: -1, Works: -1}).Run(ctx); err != nil || r.counts != 0 {
			t.Errorf("both: %d counts, %v", r.counts, err)
		}
	})
}
