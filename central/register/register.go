// Package register remembers the rackds that have served the fleet, so that one that has
// ended is shown as dead and not as one that never was.
//
// It may import protocol and central/store. Invariants:
//   - What lives is the roster's to say, here and in every answer: a row says only that a
//     rackd was there, and when it was seen last.
//   - Any number of replicas may write the rows at once: the newest sign of life wins.
//   - A row is written when a rackd comes, changes or goes, and every Refresh: the beats
//     themselves cost the database nothing.
package register

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/trouble"
)

const (
	// Every is how often the living are compared with what has been written.
	Every = 5 * time.Second
	// Refresh is how old a sign of life in a row may become while its rackd lives.
	Refresh = 10 * time.Minute
	// aheadOfUs is how far a sign of life in a row may lie in the future: clocks of replicas differ a little. One that lies
	// further was written by a clock that was wrong, and hides all that follow.
	aheadOfUs = time.Hour
	// Keep is how long a rackd that ended is remembered, as long as Ironic does by default.
	Keep = 14 * 24 * time.Hour
)

// Roster knows the rackds that live. It must be safe for concurrent use.
type Roster interface {
	Conductors() []bus.Member
}

// Config of a register.
type Config struct {
	Store  *store.Store
	Roster Roster
	// Before says which signs of life are older than Keep, and whether their rackds may be forgotten (central/age).
	Before func(ctx context.Context, keep time.Duration) (before time.Time, may bool, err error)
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger
}

// Register belongs to the goroutine that runs it.
type Register struct {
	Config
	seen    map[string]bus.Member      // at the last look that was written
	written map[string]store.Conductor // as they were written
	pruned  time.Time
}

// New returns a register that has not looked yet.
func New(c Config) *Register {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Register{Config: c, seen: map[string]bus.Member{}, written: map[string]store.Conductor{}}
}

// Run writes until ctx ends. What could not be written is written at a later look.
func (r *Register) Run(ctx context.Context) error {
	var looks trouble.Spells
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		if err := r.look(ctx); ctx.Err() == nil {
			looks.Tried(r.Log, "to note conductors", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look writes what has changed since the last look.
func (r *Register) look(ctx context.Context) error {
	now := r.Now().UTC()
	living := map[string]bus.Member{}
	for _, m := range r.Roster.Conductors() {
		living[m.Name] = m
	}
	var changed []store.Conductor
	for name, m := range living {
		if c := row(m, now); r.stale(c) {
			changed = append(changed, c)
		}
		delete(r.seen, name)
	}
	for name, m := range r.seen { // those that are gone
		if c := row(m, now); r.written[name].Updated.Before(c.Updated) {
			changed = append(changed, c)
		}
	}
	prune := now.Sub(r.pruned) >= Refresh
	if len(changed) > 0 || prune {
		before, may, err := r.Before(ctx, Keep)
		if err == nil {
			err = r.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				for i := range changed {
					if err := tx.NoteConductor(ctx, &changed[i], now.Add(aheadOfUs)); err != nil {
						return err
					}
				}
				if !may {
					return nil
				}
				return tx.ForgetConductors(ctx, before)
			})
		}
		if err != nil {
			maps.Copy(living, r.seen) // the gone are still to be written
			r.seen = living
			return fmt.Errorf("note %d conductors: %w", len(changed), err)
		}
		r.pruned = now
	}
	for name := range r.seen {
		delete(r.written, name)
	}
	for _, c := range changed {
		if _, lives := living[c.Name]; lives {
			r.written[c.Name] = c
		}
	}
	r.seen = living
	return nil
}

// stale reports whether c has to be written again.
func (r *Register) stale(c store.Conductor) bool {
	old, known := r.written[c.Name]
	return !known || old.Group != c.Group || !slices.Equal(old.Drivers, c.Drivers) || c.Updated.Sub(old.Updated) >= Refresh
}

// row is a member as its row shows it. A rackd that has not renewed anything yet is seen now.
func row(m bus.Member, now time.Time) store.Conductor {
	seen := m.RenewedAt
	if seen.IsZero() || seen.After(now) {
		seen = now
	}
	created := m.StartedAt
	if created.IsZero() {
		created = seen
	}
	return store.Conductor{Name: m.Name, Group: m.Group, Drivers: slices.Sorted(maps.Keys(m.Drivers)), Created: created, Updated: seen}
}
