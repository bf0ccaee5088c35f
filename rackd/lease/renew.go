package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Run renews the lease and follows the ring until ctx ends, then withdraws. Where
// another process holds the lease of this rackd's name it waits for that lease to end,
// and returns ErrReplaced when it sees that process live. It returns ErrNamesake where a
// rackd of this name lives in another group of the site.
func (l *Lease) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.site.Follow(ctx, bus.AliveBucket, ">", reader{l}) })
	g.Go(func() error {
		defer func() {
			l.withdraw()
			l.begin().end(errEnds)
		}()
		tick := time.NewTicker(bus.LeaseRenew)
		defer tick.Stop()
		for {
			r := l.begin()
			err := l.renew(ctx)
			r.end(err)
			if errors.Is(err, ErrReplaced) || errors.Is(err, ErrNamesake) {
				return err
			}
			if !l.due(ctx, tick.C, err != nil) {
				return nil
			}
		}
	})
	defer l.stopTurning()
	return g.Wait()
}

// due waits until the next renewal is to begin: each LeaseRenew, and earlier for callers of Confirm.
// It reports false when ctx has ended.
func (l *Lease) due(ctx context.Context, tick <-chan time.Time, failed bool) bool {
	pause := l.confirms.Reserve().Delay()
	if failed {
		pause = max(pause, retryPause)
	}
	least := time.NewTimer(pause)
	defer least.Stop()
	var wanted <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case <-least.C:
			wanted = l.wanted
		case <-wanted:
			if l.awaited() {
				return true
			}
		}
	}
}

func (l *Lease) renew(ctx context.Context) error {
	if err := l.fit(); err != nil {
		err = fmt.Errorf("this rackd may not know what the bus holds: %w", err)
		l.renewing.Failed(l.log, "to renew the lease", err, "age", l.Age())
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bus.LeaseTTL)
	defer cancel()
	if err := l.soleBearer(ctx); err != nil {
		l.renewing.Failed(l.log, "to begin the lease", err)
		return err
	}
	began, err := l.announce(ctx)
	if err == nil {
		if l.born.IsZero() {
			l.born = began
		}
		err = l.elder(l.born)
	}
	if err != nil {
		l.renewing.Failed(l.log, "to renew the lease", err, "age", l.Age())
		return err
	}
	l.renewing.Over(l.log)
	lapsed := l.Check() != nil
	if id := l.self.Lease; l.ID() != id {
		l.id.Store(&id) // before anybody can find the lease held
	}
	l.heldBoot.Store(int64(l.sentBoot))
	l.held.Store(&began)
	switch until := l.settle.Load(); {
	case lapsed:
		// Where the bus was away for everybody, the others announce themselves anew
		// within a renewal: they are not taken for dead before that.
		l.unsettle()
		l.changed() // what had to rest may go on
	case until != nil && time.Now().After(*until):
		l.settle.CompareAndSwap(until, nil) // the members may just have had to be read anew
		l.changed()
	}
	return nil
}

// announce writes the ALIVE key and returns a moment before it did so. While nobody
// else has written the key the lease goes on: others saw it live all the time. If
// somebody has, or the key is gone, another lease begins.
func (l *Lease) announce(ctx context.Context) (began time.Time, err error) {
	for range 2 { // again when the key is not as it was
		if !l.known {
			if err := l.claim(ctx); err != nil {
				return began, err
			}
		}
		began, l.sentBoot = time.Now(), l.boot()
		l.self.RenewedAt = began.UTC()
		if l.keys != nil {
			if keys := l.keys(); !bus.SameKeys(l.self.Keys, keys) {
				l.self.Keys = keys
				l.self.Edition++
			}
		}
		l.sending(l.self.RenewedAt, began)
		var rev uint64
		if rev, err = l.site.Announce(ctx, l.self, l.rev); err == nil {
			l.rev = rev
			return began, nil
		}
		if !errors.Is(err, bus.ErrLeaseLost) {
			return began, err
		}
		l.known = false
	}
	return began, err
}

// claim reads the key before it is written, and begins another lease unless the key
// still holds ours: then the answer to our last renewal was lost.
func (l *Lease) claim(ctx context.Context) error {
	holder, rev, err := l.site.Announced(ctx, l.self.Group, l.self.Name)
	switch {
	case err != nil:
		return err
	case holder != nil && holder.Instance != l.self.Instance:
		return l.refused(holder, rev)
	case holder == nil || holder.Lease != l.self.Lease:
		if l.ID() != "" {
			l.log.Warn("the lease had ended, announcing this rackd again", "age", l.Age())
		}
		l.self.Lease = uuid.NewString()
	}
	l.rev, l.known, l.rival = rev, true, rival{}
	return nil
}

// rival is another process that holds the lease of this rackd's name.
type rival struct {
	instance string
	rev      uint64
	renewals int // that were seen
}

// refused says that the name's lease is another process's. One that is dead leaves its
// key behind, at most with a renewal that was on its way: it expires, and this process
// waits for that. One that goes on renewing it lives.
func (l *Lease) refused(holder *bus.Member, rev uint64) error {
	if l.rival.sees(holder.Instance, rev) || l.ID() != "" && holder.StartedAt.After(l.self.StartedAt) {
		return fmt.Errorf("rackd %s of group %q, started %s: %w", holder.Name, holder.Group, holder.StartedAt.Format(time.RFC3339), ErrReplaced)
	}
	return fmt.Errorf("a process of this name, started %s, holds the lease of rackd %s until %s after its last renewal; waiting for that",
		holder.StartedAt.Format(time.RFC3339), holder.Name, bus.LeaseTTL)
}

func (l *Lease) unsettle() {
	later := time.Now().Add(settleTime)
	l.settle.Store(&later)
}

// withdraw gives the lease up. A renewal that was cut off in the middle may have been
// written all the same: then the key is read before it is deleted.
func (l *Lease) withdraw() {
	l.held.Store(nil)
	if !l.known {
		return // it is another's, or nobody's
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := l.site.Withdraw(ctx, l.self, l.rev)
	if err != nil {
		holder, rev, why := l.site.Announced(ctx, l.self.Group, l.self.Name)
		if err = errors.Join(err, why); why == nil && holder != nil && holder.Instance == l.self.Instance {
			err = l.site.Withdraw(ctx, l.self, rev)
		}
	}
	if err != nil {
		l.log.Info("lease not withdrawn; it expires by itself", "error", err)
	}
}
