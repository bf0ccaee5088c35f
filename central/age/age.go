// Package age says which rows of the database are so old that they may be removed.
//
// It imports nothing of the project. Removed rows do not come back, and a clock that is ahead makes every row old. So the clock of one
// host is not believed alone:
//   - The earlier of this host's clock and the database's decides.
//   - A clock that was set ahead while central ran, or is far ahead of the newest sign of life when central begins, removes nothing
//     for a day. An operator sees the warning, and sets the clock right. One that is right after all costs no more than that day.
package age

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// stepped is how far a clock is ahead of the time that has passed to count as set, and restsFor how long nothing is removed then.
	stepped  = time.Hour
	restsFor = 24 * time.Hour
	// patience is how long the database may take to tell the time.
	patience = 10 * time.Second
)

// Database is the part of the store that knows of time.
type Database interface {
	// Clock is the time by the clock of the database's host.
	Clock(ctx context.Context) (time.Time, error)
	// NewestConductor is when the rackds that were noted gave their last sign of life; zero: no rackd was noted.
	NewestConductor(ctx context.Context) (time.Time, error)
}

// Judge judges ages. Begin makes one. It is safe for concurrent use.
type Judge struct {
	db    Database
	log   *slog.Logger
	now   func() time.Time
	began time.Time

	mu    sync.Mutex
	clock watch
}

// Begin makes a Judge. To be of use it is made before this central writes anything. now is time.Now where it is nil.
func Begin(ctx context.Context, db Database, log *slog.Logger, now func() time.Time) (*Judge, error) {
	if now == nil {
		now = time.Now
	}
	newest, err := db.NewestConductor(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up how old the database's rows are: %w", err)
	}
	j := &Judge{db: db, log: log, now: now, began: time.Now()}
	if newest.IsZero() {
		j.clock.until = restsFor
	} else {
		j.clock.look(newest, 0)
	}
	_, _, err = j.Before(ctx, 0)
	return j, err
}

// Before returns the time before which rows are older than keep. may says whether they may be removed now.
func (j *Judge) Before(ctx context.Context, keep time.Duration) (before time.Time, may bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now, err := j.db.Clock(ctx)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("ask the database for the time, before old rows are removed: %w", err)
	}
	if own := j.now(); own.Before(now) {
		now = own
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	ahead, may := j.clock.look(now, time.Since(j.began))
	if ahead > 0 {
		j.log.Warn("the clock of this host is far ahead of the time that has passed since rows were written: no old row is removed for a while. "+
			"If the clock is wrong, set it right before that is over", "ahead", ahead.Round(time.Second), "while", restsFor, "clock", now.UTC())
	}
	return now.Add(-keep), may, nil
}
