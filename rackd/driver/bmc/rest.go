package bmc

import (
	"fmt"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

// Resting is what a call to a BMC ends with that was told to restart. It implements driver.Resting.
type Resting struct{ until time.Time }

func (r *Resting) Error() string {
	return fmt.Sprintf("it was told to restart, and rackd leaves it alone until %s: %s", r.until.UTC().Format(time.TimeOnly+" MST"), driver.ErrUnreachable)
}

// Unwrap returns driver.ErrUnreachable: trying again helps.
func (r *Resting) Unwrap() error { return driver.ErrUnreachable }

// Until is when the BMC is asked again.
func (r *Resting) Until() time.Time { return r.until }

// Rest leaves a BMC alone for some time, because it was told to restart: calls end at once with a *Resting, and
// its session counts as lost. It may be called while a call to that BMC is under way.
func (p *Pool[S]) Rest(address string, d time.Duration) {
	b, err := p.acquire(address)
	if err != nil {
		return // closed: no call follows
	}
	defer p.release(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	b.rest, b.woken = time.Now().Add(d), true
}

// rested returns a *Resting while the BMC rests, and forgets the session of before. The caller has the turn.
func (p *Pool[S]) rested(b *place[S]) error {
	p.mu.Lock()
	rest, woken := b.rest, b.woken
	resting := time.Now().Before(rest)
	if !resting {
		b.woken = false
	}
	p.mu.Unlock()
	if resting {
		return &Resting{rest}
	}
	if woken && b.open {
		b.drop()
	}
	return nil
}
