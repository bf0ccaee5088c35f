// Package drivertest is what tests of drivers stand on: in-memory doubles of
// everything that a task lends to a step, and the checks that hold power and
// management interfaces to the contract (Conformance).
//
// It may import rackd/driver and protocol; only tests import it.
package drivertest

import (
	"fmt"
	"sync/atomic"

	"github.com/ironyard/ironyard/rackd/driver"
)

// Fence is a fence that a test can take away.
type Fence struct {
	lost   atomic.Bool
	left   atomic.Int64 // checks that still pass, when limited
	limit  atomic.Bool
	Checks atomic.Int64
}

// Lose takes the node away at once.
func (f *Fence) Lose() { f.lost.Store(true) }

// LoseAfter takes the node away once n more checks have passed.
func (f *Fence) LoseAfter(n int) {
	f.left.Store(int64(n))
	f.limit.Store(true)
}

// Check implements driver.Fence.
func (f *Fence) Check() error {
	f.Checks.Add(1)
	if f.lost.Load() || f.limit.Load() && f.left.Add(-1) < 0 {
		return fmt.Errorf("epoch 8 has begun: %w", driver.ErrFenced)
	}
	return nil
}

// Work is always "work-1".
func (f *Fence) Work() string { return "work-1" }

// Epoch is always 7.
func (f *Fence) Epoch() uint64 { return 7 }
