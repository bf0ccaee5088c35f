package verdict

import (
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// success is where a node rests after a verb's work.
var success = map[work.Verb]provision.State{work.Manage: provision.Manageable, work.Provide: provision.Available, work.Clean: provision.Manageable,
	work.Inspect: provision.Manageable, work.Deploy: provision.Active, work.Rebuild: provision.Active, work.Delete: provision.Available,
	work.Adopt: provision.Active}

// rest holds that everything has come to an end, and to the right one.
func (j *judge) rest() {
	if j.Outbox > 0 {
		j.blame("%d entries are left in the outbox", j.Outbox)
	}
	for _, n := range j.Nodes {
		if provision.Transient(n.State) {
			j.blame("node %s (%s) does not rest: it is %q, bound for %q", n.UUID, n.Name, n.State, n.Target)
		}
		if n.PowerTarget != "" {
			j.blame("node %s (%s) does not rest: its power is bound for %q", n.UUID, n.Name, n.PowerTarget)
		}
		last := j.newest(n.UUID)
		if last == nil || last.Generation != n.Generation || last.State != ended {
			continue // what came after needed no rack, or is blamed elsewhere
		}
		want, known := success[last.Verb]
		info, _ := provision.Describe(n.State)
		switch {
		case !known:
		case last.Error == "" && n.State != want:
			j.blame("node %s (%s) is %q although its %s (work %s) ended without an error", n.UUID, n.Name, n.State, last.Verb, last.ID)
		case last.Error != "" && last.Verb != work.Manage && info.Kind != provision.Failed:
			j.blame("node %s (%s) is %q although its %s (work %s) failed: %s", n.UUID, n.Name, n.State, last.Verb, last.ID, last.Error)
		case last.Error != "" && n.LastError == "":
			j.blame("node %s (%s) does not say why its %s (work %s) failed: %s", n.UUID, n.Name, last.Verb, last.ID, last.Error)
		}
	}
	for i := range j.Works {
		w := &j.Works[i]
		switch w.State {
		case ended:
			if w.Ended.IsZero() {
				j.blame("node %s: work %s (%s) ended at no time", w.Node, w.ID, w.Verb)
			}
		case superseded:
			if j.newest(w.Node).Generation <= w.Generation {
				j.blame("node %s: work %s (%s) was superseded by nothing", w.Node, w.ID, w.Verb)
			}
		default:
			j.blame("node %s: work %s (%s) is still %s", w.Node, w.ID, w.Verb, w.State)
		}
	}
}
