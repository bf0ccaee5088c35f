package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// A machine that was suspended finds its lease lost in the first moment after it goes on,
// although Go's monotonic clock has not moved.
func TestSuspendedMachineHoldsNoLease(t *testing.T) {
	booted := time.Hour
	l := &Lease{boot: func() time.Duration { return booted }}
	renewed := func(at time.Time) { l.heldBoot.Store(int64(booted)); l.held.Store(&at) }
	renewed(time.Now())
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	booted += bus.LeaseTTL
	if err := l.Check(); !errors.Is(err, ErrNotHeld) {
		t.Errorf("suspended for %s: %v", bus.LeaseTTL, err)
	}
	if l.Age() < bus.LeaseTTL {
		t.Errorf("its age is said to be %s", l.Age())
	}
	renewed(time.Now())
	if err := l.Check(); err != nil {
		t.Errorf("after a renewal: %v", err)
	}
	if a, b := sinceBoot(), sinceBoot(); a == 0 || b < a {
		t.Errorf("the clock since boot reads %s, then %s", a, b)
	}
}
