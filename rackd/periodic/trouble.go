package periodic

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

// MaxPause is the longest time between two attempts with credentials that are refused. BMCs count failed logins over
// minutes, up to an hour.
const MaxPause = time.Hour

// Trouble is a BMC, or a machine, at which a task fails.
type Trouble struct {
	Failures int // in a row
	// Denied: the credentials are refused.
	Denied bool
	// Held: rackd does not log in with them again by itself (driver.Withheld).
	Held  bool
	Until time.Time // it is not asked before
	Why   error     // of the last failure
}

// failed counts a failure and says for how long the BMC is left alone.
func (t *Trouble) failed(of *Task, err error, now time.Time) {
	t.Failures++
	t.Why, t.Denied, t.Held = err, errors.Is(err, driver.ErrDenied), heldForGood(err)
	pause := of.Every
	switch over := t.Failures - of.Failures; {
	case t.Held: // the next turns send nothing to the BMC, until the credentials are taken from a request
	case t.Denied:
		pause = min(of.Recovery<<min(t.Failures-1, 10), MaxPause)
	case over >= 0:
		pause = of.Recovery << min(over, 2)
	}
	t.Until = now.Add(spread(pause))
}

// heldForGood reports whether err says that rackd does not log in again by itself.
func heldForGood(err error) bool {
	held, is := errors.AsType[driver.Withheld](err)
	return is && held.Again().IsZero()
}

// Result names an outcome in metrics: ok, denied, unreachable, unsupported or failed.
func Result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, driver.ErrDenied):
		return "denied"
	case errors.Is(err, driver.ErrUnreachable):
		return "unreachable"
	case errors.Is(err, driver.ErrUnsupported):
		return "unsupported"
	}
	return "failed"
}

// spread is d, give or take a tenth, so that what failed together is not asked together.
func spread(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}
