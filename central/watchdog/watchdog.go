// Package watchdog ends work that nobody is left to do: when no rackd that could
// serve a node lives, nobody keeps the deadline of its state either, so central does.
//
// It may import protocol and central/store. Invariants:
//   - The racks come first. Work is ended only when its state's deadline has passed,
//     and Grace besides, and when for at least Grace no rackd of the node's group or
//     of its failover groups has lived. Whoever comes back within that time goes on
//     with the work as if nothing had been.
//   - No clock but this replica's is asked: the deadline counts from the look that saw
//     the node's state first. After central's start it counts again from there.
//   - A flow whose node is in maintenance is parked, and not ended.
//   - A site that is away proves nothing: its rackds may well work on. The time is
//     counted anew from when it is back.
//   - Any number of replicas may do so at once: what was judged is compared with the
//     rows in the transaction that ends the work, and the first to write wins.
//   - The node's generation grows, so that a rackd which comes back after all finds
//     its work gone and its late events dropped.
package watchdog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/trouble"
	"github.com/ironyard/ironyard/protocol/work"
)

// Roster knows the rackds that live. It must be safe for concurrent use.
type Roster interface {
	// Owner returns the rackd that serves a node, ok false for none.
	Owner(node, driver, group string) (m bus.Member, ok bool)
	// Outdated returns the rackds that live and do not read what central writes.
	Outdated(driver, group string) []bus.Member
	// Late returns the rackds that live and lack the key that central seals with.
	Late(driver, group string) []bus.Member
}

// Config of a watchdog.
type Config struct {
	Store  *store.Store
	Roster Roster
	// Away says why the site of a group cannot be reached, nil when it can.
	Away func(group string) error
	// Failover returns the groups that stand in for a group, for the error's text.
	Failover func(group string) []string
	// Grace is how long a node may have nobody to serve it; 0: DefaultGrace.
	Grace time.Duration
	// Ended is told the group of each work that is ended; nil: nobody is.
	Ended func(group string)
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger
}

// DefaultGrace is long enough to start a rackd again, or to mend a rack's switch.
const DefaultGrace = 15 * time.Minute

// Watchdog belongs to the goroutine that runs it.
type Watchdog struct {
	Config
	// orphans are the open works, by id, that have nobody to do them, and since when
	// this has been so at each look.
	orphans map[string]time.Time
	// reports are what the open works, by id, told last, and when a look saw that first.
	reports map[string]report
}

// report is what a work told: the moments are of others' clocks, and only compared with themselves.
type report struct {
	requested, told time.Time
	state           provision.State
	seen            time.Time
}

// New returns a watchdog that has seen nothing.
func New(c Config) *Watchdog {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Ended == nil {
		c.Ended = func(string) {}
	}
	return &Watchdog{Config: c, orphans: map[string]time.Time{}, reports: map[string]report{}}
}

// often is how many looks there are in a grace.
const often = 30

// Run looks at the open works until ctx ends.
func (w *Watchdog) Run(ctx context.Context) error {
	var looks trouble.Spells
	tick := time.NewTicker(max(w.Grace/often, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := w.look(ctx); ctx.Err() == nil {
				looks.Tried(w.Log, "watchdog: to look at works", err)
			}
		}
	}
}

// pageSize is how many works are read at once.
const pageSize = 1000

// look looks at all open works once. What it cannot read it knows nothing of: those
// works are looked at as if for the first time then.
func (w *Watchdog) look(ctx context.Context) error {
	orphans, reports, after := map[string]time.Time{}, map[string]report{}, ""
	var errs []error
	defer func() { w.orphans, w.reports = orphans, reports }()
	for {
		page, err := w.Store.Unfinished(ctx, after, pageSize)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, u := range page {
			after = u.Node
			told := w.told(u)
			reports[u.ID] = told
			if w.Away(u.Group) != nil {
				continue
			}
			if _, served := w.Roster.Owner(u.Node, u.Driver, u.Group); served {
				continue
			}
			if parked(u) {
				continue
			}
			since, known := w.orphans[u.ID]
			if !known {
				since = w.Now()
			}
			orphans[u.ID] = since
			if w.overdue(u, told.seen, since) {
				errs = append(errs, w.end(ctx, u, since))
			}
		}
		if len(page) < pageSize {
			return errors.Join(errs...)
		}
	}
}

// parked reports whether the deadline of a work stands still: as the racks keep it, no flow ends while its
// node is in maintenance. The watchdog begins to count again when the maintenance ends.
func parked(u *store.Unfinished) bool {
	return node.Attended(u.Maintenance, u.Fault) && (work.Parks(u.Verb, &u.Args) || work.ParksInBand(u.Verb))
}

// told is what a work tells at this look.
func (w *Watchdog) told(u *store.Unfinished) report {
	r := report{requested: u.RequestedAt, told: u.Since, state: u.State, seen: w.Now()}
	if old, known := w.reports[u.ID]; known && old.requested.Equal(r.requested) && old.told.Equal(r.told) && old.state == r.state {
		r.seen = old.seen
	}
	return r
}

// overdue reports whether a work is to be ended: it has told nothing since told, and no rackd has lived for it since orphaned.
func (w *Watchdog) overdue(u *store.Unfinished, told, orphaned time.Time) bool {
	state, _ := provision.Describe(u.State)
	if state.Kind == provision.Held {
		return false // it waits for an operator, who may wait for the rack
	}
	now := w.Now()
	return now.Sub(orphaned) >= w.Grace && now.Sub(told) >= state.Deadline+w.Grace
}
