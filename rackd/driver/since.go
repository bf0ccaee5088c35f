package driver

import "time"

// Since is how long ago a step noted at, by the wall clock of this rackd. What another rackd has noted counts from when this one took
// the work: between two clocks, a time that has passed is not known.
func (t *Task) Since(at time.Time) time.Duration {
	now := time.Now()
	if at.Before(t.Taken) || at.After(now) {
		at = t.Taken
	}
	if at.IsZero() {
		return 0
	}
	return now.Sub(at)
}
