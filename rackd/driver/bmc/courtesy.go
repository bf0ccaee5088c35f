package bmc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

// loginsAlone is how many logins in a row background work makes with credentials that are refused. A BMC that has just restarted refuses
// good ones for a moment, so that it is two. BMCs and directories lock accounts after three.
const loginsAlone = 2

// pauseOf is how long credentials are left alone after a refused login, whatever asks for the BMC. It is shorter than the first pause of
// power sync, so that its read is not held back by those before it.
func pauseOf(recovery time.Duration) time.Duration { return recovery / 5 }

// forgetAfter is for how long a refusal is remembered that no call asks after.
const forgetAfter = 24 * time.Hour

// jitter is the share of a pause that chance takes away: nodes of a rack whose credentials were changed together are not all tried at
// one moment. A pause never gets longer.
const jitter = 0.2

// shorter is a pause less its share of chance, which is from 0 up to 1.
func shorter(pause time.Duration, chance float64) time.Duration {
	return pause - time.Duration(float64(pause)*jitter*chance)
}

// courtesy remembers which accounts were refused. It forgets one that no call was for in a day.
type courtesy struct {
	recovery time.Duration  // of PoolOptions
	chance   func() float64 // as well
	mu       sync.Mutex
	refusal  map[[32]byte]*refusal // by Account.Sum
	turns    map[[32]byte]*turn    // of logins that take no turn at their BMC, as well
}

// turn is one account's.
type turn struct {
	taken chan struct{} // capacity 1: full while a login is under way
	users int
}

// take waits until no other login of an account is under way. give ends the turn.
func (c *courtesy) take(ctx context.Context, sum [32]byte) (give func(), err error) {
	c.mu.Lock()
	if c.turns == nil {
		c.turns = map[[32]byte]*turn{}
	}
	t := c.turns[sum]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		c.turns[sum] = t
	}
	t.users++
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(c.turns, sum)
		}
	}
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("waiting for other logins of this account (%w): %w", context.Cause(ctx), driver.ErrUnreachable)
	}
}

type refusal struct {
	logins int // in a row
	until  time.Time
	asked  time.Time // when a call was for the account last
	why    error
	// later: a request within a session was refused, so that the driver's login proves no credentials.
	later bool
}

// heldBack is a refusal after which rackd holds the credentials back. It implements driver.Withheld.
type heldBack struct {
	cause error
	// until is the end of the pause, in which nothing logs in.
	until time.Time
	// alone: rackd logs in again by itself after the pause.
	alone bool
	// tried: this call has logged in, and was refused. Else the refusal is that of a call before.
	tried bool
	// guess: the refusals were of other accounts.
	guess bool
}

func (h *heldBack) Error() string { return h.cause.Error() }
func (h *heldBack) Unwrap() error { return h.cause }

// Again implements driver.Withheld.
func (h *heldBack) Again() time.Time {
	if h.alone {
		return h.until
	}
	return time.Time{}
}

// Tried implements driver.Withheld.
func (h *heldBack) Tried() bool { return h.tried }

// check returns the last refusal of an account that is not to be tried now: its pause lasts, or background work has made its logins. Then
// the request's own one counts, if try has it.
func (c *courtesy) check(sum [32]byte, try *driver.Try) error {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.refusal[sum]
	if r == nil {
		return nil
	}
	r.asked = now
	alone := r.logins < loginsAlone
	if !now.Before(r.until) && (alone || try.Left(sum)) {
		return nil
	}
	return &heldBack{cause: r.why, until: r.until, alone: alone}
}

// refused begins a pause, and spends the request's login. It returns why, marked as the last login if no other follows by itself. later
// says that the login went well, and what followed was refused.
func (c *courtesy) refused(sum [32]byte, try *driver.Try, why error, later bool) error {
	try.Spend(sum)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal == nil {
		c.refusal = map[[32]byte]*refusal{}
	}
	for key, r := range c.refusal {
		if now.Sub(r.asked) > forgetAfter {
			delete(c.refusal, key)
		}
	}
	r := c.refusal[sum]
	if r == nil {
		r = &refusal{}
		c.refusal[sum] = r
	}
	r.logins++
	r.later = r.later || later
	r.until, r.asked, r.why = now.Add(shorter(pauseOf(c.recovery), c.chance())), now, why
	if r.logins < loginsAlone {
		return why
	}
	return &heldBack{cause: why, until: r.until, tried: true}
}

// accepted forgets an account's refusals.
func (c *courtesy) accepted(sum [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refusal, sum)
}

// letIn forgets the refusals of an account that has a session now, whatever else has failed, if they were of logins.
func (c *courtesy) letIn(sum [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.refusal[sum]; r != nil && !r.later {
		delete(c.refusal, sum)
	}
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
