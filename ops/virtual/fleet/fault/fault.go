// Package fault is what a test makes go wrong in a simulated machine, besides its
// BMC, whose faults are ops/virtual/vbmc's.
//
// It may import nothing of the project.
package fault

import (
	"errors"
	"sync/atomic"
)

// ErrIsolated is what a machine sees whose network is cut.
var ErrIsolated = errors.New("the machine's network is cut (injected)")

// ErrWrite is what a write to a bad disk ends with.
var ErrWrite = errors.New("I/O error on the disk (injected)")

// Faults of one machine. The zero value is a sound one. Safe for concurrent use.
type Faults struct {
	isolated atomic.Bool
	writes   atomic.Int64
	erasures atomic.Int64
	targets  atomic.Int64
}

// Isolate cuts the machine, but not its BMC, off the network, or joins it again.
func (f *Faults) Isolate(on bool) { f.isolated.Store(on) }

// Network returns ErrIsolated while the machine is cut off.
func (f *Faults) Network() error {
	if f.isolated.Load() {
		return ErrIsolated
	}
	return nil
}

// FailWrites makes the next n image writes fail halfway.
func (f *Faults) FailWrites(n int) { f.writes.Store(int64(n)) }

// FailErasures makes the next n erasures fail at their end.
func (f *Faults) FailErasures(n int) { f.erasures.Store(int64(n)) }

// KillTargets makes the next n iSCSI targets of the machine die while an image is written to them.
func (f *Faults) KillTargets(n int) { f.targets.Store(int64(n)) }

// TargetToKill reports whether one is left of those that KillTargets said.
func (f *Faults) TargetToKill() bool { return f.targets.Load() > 0 }

// KillsTarget reports whether a target is to die now, as often as KillTargets said.
func (f *Faults) KillsTarget() bool { return next(&f.targets) != nil }

// Write returns ErrWrite as often as FailWrites said.
func (f *Faults) Write() error { return next(&f.writes) }

// Erase returns ErrWrite as often as FailErasures said.
func (f *Faults) Erase() error { return next(&f.erasures) }

func next(left *atomic.Int64) error {
	for {
		n := left.Load()
		if n <= 0 {
			return nil
		}
		if left.CompareAndSwap(n, n-1) {
			return ErrWrite
		}
	}
}
