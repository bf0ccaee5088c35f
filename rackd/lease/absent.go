package lease

import (
	"maps"
	"time"
)

// absence is of a rackd whose lease ran out: it may be cut off, and know what nobody else does.
type absence struct {
	group string
	since time.Time // its last sign of life
}

// Incomplete reports whether a rackd that may serve group is about to come back, or has just come: its last sign of life
// is younger than away, and it has not withdrawn; or it was first seen, or seen again, less than back ago. What it
// remembers of the group's work it may not have said yet.
func (l *Lease) Incomplete(group string, away, back time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(l.absent, func(_ string, a absence) bool { return now.Sub(a.since) >= away })
	for _, a := range l.absent {
		if l.groups.Serves(a.group, group) {
			return true
		}
	}
	for key, m := range l.members {
		if key != l.key() && l.groups.Serves(m.Group, group) && now.Sub(l.came[key]) < back {
			return true
		}
	}
	return false
}
