package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// retry runs once until it works, fails for good or has been tried maxAttempts
// times. The whole transaction is run again: on PostgreSQL a savepoint would keep
// the old snapshot and conflict for ever.
func retry(ctx context.Context, retryable func(error) bool, once func() error) error {
	delay := 2 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := once()
		if err == nil || !retryable(err) {
			return err
		}
		if attempt == maxAttempts {
			return fmt.Errorf("%w: gave up after %d attempts: %w", ErrBusy, attempt, err)
		}
		t := time.NewTimer(delay/2 + rand.N(delay))
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w, while retrying after: %w", ctx.Err(), err)
		case <-t.C:
		}
		delay = min(2*delay, 200*time.Millisecond)
	}
}
