package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the clock that goes on while the machine is suspended, which Go's monotonic
// clock does not.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0 // a kernel without it: the other clocks decide
	}
	return time.Duration(now.Nano())
}

// age is the longest time that any of the machine's clocks has seen pass since the newest
// confirmed renewal. The time of day counts too: it is the one that a hypervisor or a time
// server puts right after a pause. Set forward by hand it costs a renewal's time, in which
// nothing begins.
func (l *Lease) age(at time.Time) time.Duration {
	now := time.Now()
	age := max(now.Sub(at), now.Round(0).Sub(at.Round(0)))
	if boot := l.heldBoot.Load(); boot != 0 {
		age = max(age, l.boot()-time.Duration(boot))
	}
	return age
}
