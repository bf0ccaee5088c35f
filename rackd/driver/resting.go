package driver

import (
	"errors"
	"time"
)

// Resting is an error that says that rackd leaves a BMC alone for a while on purpose, because it was told to restart. It wraps
// ErrUnreachable, and it does not count as a failure of the BMC.
type Resting interface {
	error
	// Until is when the BMC is asked again.
	Until() time.Time
}

// PauseAfter is how long to wait after err: pause, or longer if a BMC is left alone for longer.
func PauseAfter(err error, pause time.Duration) time.Duration {
	if r, resting := errors.AsType[Resting](err); resting {
		return max(pause, time.Until(r.Until()))
	}
	return pause
}
