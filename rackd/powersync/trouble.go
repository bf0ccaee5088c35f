package powersync

import (
	"errors"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

// maxPause is the longest between two attempts with credentials that are refused:
// BMCs count failed logins over minutes, up to an hour.
const maxPause = time.Hour

// trouble is a BMC, or a machine, that fails.
type trouble struct {
	failures int // in a row
	denied   bool
	until    time.Time // not asked before
	why      error     // the last
}

// failed counts a failure and says how long to leave the BMC alone.
func (c Config) failed(t *trouble, err error, now time.Time) {
	t.failures++
	t.why, t.denied = err, errors.Is(err, driver.ErrDenied)
	pause := c.Every
	switch over := t.failures - c.Failures; {
	case t.denied:
		pause = min(c.Recovery<<min(t.failures-1, 10), maxPause)
	case over >= 0:
		pause = c.Recovery << min(over, 2)
	}
	t.until = now.Add(spread(pause))
}

// resultOf names an outcome in the metrics.
func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, driver.ErrDenied):
		return "denied"
	case errors.Is(err, driver.ErrUnreachable):
		return "unreachable"
	}
	return "failed"
}
