// Package pace says how long things take in a simulated machine: what the test asks
// for, spread by a seeded die, so that a fleet does not move in step and yet moves
// in the same way again when the seed is the same.
//
// It may import nothing of the project.
package pace

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Timings are how long the parts of a machine's life take.
type Timings struct {
	// Firmware is from power on to the request for a boot script; Ramdisk from the
	// loaded kernel to the agent's first lookup; Instance from the disk's first
	// sector to the instance.
	Firmware, Ramdisk, Instance time.Duration
	// Retry is the pause before a network boot is tried again that nobody answered.
	Retry time.Duration
	// Write is how long the writing of an image takes at least, Step any other command.
	Write, Step time.Duration
	// Grace is from the end of a command that ends the machine's run to the end;
	// Shutdown from the press of the power button to the instance's end.
	Grace, Shutdown time.Duration
	// Spread, from 0 to 1, is the part of each time that is left to chance.
	Spread float64
}

// Default are quick machines: a deploy's own part takes about five seconds.
var Default = Timings{Firmware: time.Second, Ramdisk: time.Second, Instance: 500 * time.Millisecond, Retry: time.Second,
	Write: 2 * time.Second, Step: 200 * time.Millisecond, Grace: 500 * time.Millisecond, Shutdown: time.Second, Spread: 0.3}

// Pace is one machine's die. Safe for concurrent use.
type Pace struct {
	Timings
	mu  sync.Mutex
	die *rand.Rand
}

// New returns the pace of machine n of a fleet with that seed.
func New(t Timings, seed, n uint64) *Pace {
	return &Pace{Timings: t, die: rand.New(rand.NewPCG(seed, n))}
}

// Of returns d, more or less.
func (p *Pace) Of(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(float64(d) * (1 + p.Spread*(p.die.Float64()-0.5)))
}

// Order returns 0 to n-1 in an order left to chance.
func (p *Pace) Order(n int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.die.Perm(n)
}

// Sleep waits for about d; its error is why ctx ended before.
func (p *Pace) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(p.Of(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
