// Package retention removes what the database keeps of each node for a while only: old lines of its history, and rows
// of works that ended long ago.
//
// It imports central/store only. Which works are old, central/age says. It goes through all nodes at a slow pace, a page at
// a time, in transactions of few rows, so that no request waits for it. Every replica of central does that: one that finds
// nothing left changes nothing. What it has not come to is removed in the next round.
package retention

import (
	"context"
	"log/slog"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// What is kept where Config does not say otherwise. Ironic keeps 300 lines of a node's history.
const (
	DefaultHistory = 300
	DefaultWorks   = 30 * 24 * time.Hour
)

const (
	// every is the pause between two rounds, and firstRound when the first one begins.
	every      = time.Hour
	firstRound = 5 * time.Minute
	// page is how many nodes are counted at once, and batch how many rows a transaction removes.
	page  = 100
	batch = 500
	// pause follows each page. After a batch the Pruner rests for as long as that took.
	pause = 100 * time.Millisecond
)

// Rows is the part of the store that is pruned.
type Rows interface {
	Surpluses(ctx context.Context, after string, ended time.Time, limit int) ([]store.Surplus, error)
	PruneHistory(ctx context.Context, node string, keep, limit int) (int64, error)
	PruneWorks(ctx context.Context, node string, ended time.Time, limit int) (int64, error)
}

// Config of a Pruner.
type Config struct {
	Rows Rows
	Log  *slog.Logger
	// History is how many lines of a node's history are kept; 0: DefaultHistory; below 0: all.
	History int
	// Works is for how long the row of an ended work is kept; 0: DefaultWorks; below 0: for ever. A node's newest work
	// is always kept.
	Works time.Duration
	// Before says which works ended longer ago than that, and whether they may be removed (central/age).
	Before func(ctx context.Context, keep time.Duration) (before time.Time, may bool, err error)
	// Removed, if not nil, is told how many rows of "history" or of "works" are gone.
	Removed func(kind string, rows int64)
}

// Pruner removes old rows. Make it with New.
type Pruner struct{ cfg Config }

// New returns a Pruner that Run starts.
func New(cfg Config) *Pruner {
	if cfg.History == 0 {
		cfg.History = DefaultHistory
	}
	if cfg.Works == 0 {
		cfg.Works = DefaultWorks
	}
	if cfg.Removed == nil {
		cfg.Removed = func(string, int64) {}
	}
	return &Pruner{cfg}
}

// Run goes round until ctx ends. It returns nil then.
func (p *Pruner) Run(ctx context.Context) error {
	if p.cfg.History < 0 && p.cfg.Works < 0 {
		<-ctx.Done()
		return nil
	}
	for next := firstRound; wait(ctx, next); next = every {
		if err := p.Round(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("old history and ended works are not removed now; the next round tries again", "next", every, "error", err)
		}
	}
	return nil
}

// Round goes through all nodes once.
func (p *Pruner) Round(ctx context.Context) error {
	ended := time.Time{} // before all works
	if p.cfg.Works > 0 {
		before, may, err := p.cfg.Before(ctx, p.cfg.Works)
		if err != nil {
			return err
		}
		if may {
			ended = before
		}
	}
	for after := ""; ; {
		list, err := p.cfg.Rows.Surpluses(ctx, after, ended, page)
		if err != nil {
			return err
		}
		for _, s := range list {
			if p.cfg.History > 0 && s.History > p.cfg.History {
				err := p.empty(ctx, "history", func() (int64, error) { return p.cfg.Rows.PruneHistory(ctx, s.Node, p.cfg.History, batch) })
				if err != nil {
					return err
				}
			}
			if s.OldWorks > 0 {
				err := p.empty(ctx, "works", func() (int64, error) { return p.cfg.Rows.PruneWorks(ctx, s.Node, ended, batch) })
				if err != nil {
					return err
				}
			}
		}
		if len(list) < page || !wait(ctx, pause) {
			return ctx.Err()
		}
		after = list[len(list)-1].Node
	}
}

// empty removes batches until one is not full.
func (p *Pruner) empty(ctx context.Context, kind string, remove func() (int64, error)) error {
	for {
		began := time.Now()
		n, err := remove()
		p.cfg.Removed(kind, n)
		if err != nil || n < batch {
			return err
		}
		if !wait(ctx, time.Since(began)) {
			return ctx.Err()
		}
	}
}

// wait returns false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
