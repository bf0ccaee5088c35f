package bmc

import (
	"errors"
	"sync"
	"time"
)

// longestPause is the longest between two logins with credentials that are refused: BMCs count failed logins over minutes,
// up to an hour.
const longestPause = 48 * time.Minute

// pauseAfter is how long credentials are left alone after so many refused logins in a row. BMCs lock accounts after three. Each
// pause is shorter than that of power sync, so that its reads are not held back by those before them.
func pauseAfter(logins int, recovery time.Duration) time.Duration {
	if logins == 1 {
		return recovery / 5
	}
	return min(recovery*4/5<<min(logins-2, 10), longestPause)
}

// jitter is the share of a pause that chance takes away: nodes of a rack whose credentials were changed together are not all tried at
// one moment. A pause never gets longer.
const jitter = 0.2

// shorter is a pause less its share of chance, which is from 0 up to 1.
func shorter(pause time.Duration, chance float64) time.Duration {
	return pause - time.Duration(float64(pause)*jitter*chance)
}

// courtesy remembers which accounts were refused. It forgets one that was not tried for an hour after its pause.
type courtesy struct {
	recovery time.Duration  // of PoolOptions
	chance   func() float64 // as well
	mu       sync.Mutex
	refusal  map[[32]byte]*refusal // by Account.Sum
}

type refusal struct {
	logins int // in a row
	until  time.Time
	why    error
}

// heldBack is a login that was not tried, because of the one before, whose error it wraps.
type heldBack struct {
	cause error
	until time.Time
}

func (h *heldBack) Error() string { return h.cause.Error() }
func (h *heldBack) Unwrap() error { return h.cause }

// check returns the last refusal of an account while its pause lasts.
func (c *courtesy) check(sum [32]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.refusal[sum]; r != nil && time.Now().Before(r.until) {
		return &heldBack{r.why, r.until}
	}
	return nil
}

// refused begins a pause.
func (c *courtesy) refused(sum [32]byte, why error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal == nil {
		c.refusal = map[[32]byte]*refusal{}
	}
	for key, r := range c.refusal {
		if now.Sub(r.until) > time.Hour {
			delete(c.refusal, key)
		}
	}
	r := c.refusal[sum]
	if r == nil {
		r = &refusal{}
		c.refusal[sum] = r
	}
	r.logins++
	r.until, r.why = now.Add(shorter(pauseAfter(r.logins, c.recovery), c.chance())), why
}

// accepted forgets an account's refusals.
func (c *courtesy) accepted(sum [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refusal, sum)
}

// marked is an error that the pool acts upon. Its text is that of its cause.
type marked struct {
	error
	forgotten, refused bool
}

func (m *marked) Unwrap() error { return m.error }

// RefusedLogin marks err: the BMC has refused the credentials themselves. A refusal of one
// operation, for want of a right, is none.
func RefusedLogin(err error) error { return &marked{error: err, refused: true} }

// Forgotten marks err: the BMC no longer knows the session.
func Forgotten(err error) error { return &marked{error: err, forgotten: true} }

func isRefusedLogin(err error) bool {
	m, ok := errors.AsType[*marked](err)
	return ok && m.refused
}

func isForgotten(err error) bool {
	m, ok := errors.AsType[*marked](err)
	return ok && m.forgotten
}
