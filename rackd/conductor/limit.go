package conductor

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
func (r *runner) limit() time.Duration {
	if d := r.c.deadline(r.doc.State); d > 0 {
		return d
	}
	switch {
	case held(r.doc.State):
		return 0
	case r.doc.Verb == work.Abort:
		// A step that must not be cut short has the time that it had before.
		return max(restingDeadline, r.c.deadline(flow.WaitsIn[r.doc.Flow()]))
	case r.doc.Verb == work.Power:
		return max(restingDeadline, flow.SoftTimeout(&r.doc.Args)+5*time.Minute)
	}
	return restingDeadline
}
