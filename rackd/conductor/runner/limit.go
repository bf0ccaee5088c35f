package runner

import (
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
)

// held reports whether a state waits for an operator, for however long.
func held(s provision.State) bool {
	info, _ := provision.Describe(s)
	return info.Kind == provision.Held
}

// restingDeadline bounds work on a node whose provision state does not change.
const restingDeadline = 15 * time.Minute

// limit is how long the work's state, or its step in a state that rests, may last; 0: for as
// long as an operator likes.
func (r *Runner) limit() time.Duration {
	if d := r.deadline(r.doc.State); d > 0 {
		return d
	}
	switch {
	case held(r.doc.State):
		return 0
	case r.doc.Verb == work.Abort:
		// A step that must not be cut short has the time that it had before.
		return max(restingDeadline, r.deadline(flow.WaitsIn[r.doc.Flow()]))
	case r.doc.Verb == work.Power:
		return max(restingDeadline, flow.SoftTimeout(&r.doc.Args)+5*time.Minute)
	}
	return restingDeadline
}

// deadline returns how long a node may stay in s.
func (r *Runner) deadline(s provision.State) time.Duration {
	if d := r.deps.Deadlines[s]; d > 0 {
		return d
	}
	info, _ := provision.Describe(s)
	return info.Deadline
}

// setDeadline lets the state's time begin. The deadline keeps its monotonic reading, which
// UTC would take away: in this process a step of the wall clock must not move it.
func (r *Runner) setDeadline() {
	r.doc.Checkpoint.Deadline = time.Time{}
	if d := r.limit(); d > 0 {
		r.grant(d)
	}
}
