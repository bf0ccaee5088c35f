package verdict

import (
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/protocol/work"
)

// verbs are the requests that always begin a piece of work when they are accepted.
var verbs = map[string]work.Verb{"active": work.Deploy, "rebuild": work.Rebuild, "deleted": work.Delete, "provide": work.Provide,
	"clean": work.Clean, "inspect": work.Inspect, "power on": work.Power, "power off": work.Power, "power rebooting": work.Power}

// requests holds central to its answers.
func (j *judge) requests() {
	alive := map[string]bool{}
	for _, n := range j.Nodes {
		alive[n.UUID] = true
	}
	for _, r := range j.Requests {
		// An answer is a promise, a refusal that the client can act upon, or 503.
		if !r.Unknown() && r.Status/100 != 2 && r.Status/100 != 4 && r.Status != http.StatusServiceUnavailable {
			j.blame("request %s (%s of node %s) was answered %d: %s", r.ID, r.What, r.Node, r.Status, r.Fault)
		}
		if r.What == "delete" && r.Accepted() && alive[r.Node] {
			j.blame("node %s exists although its deletion was accepted (request %s)", r.Node, r.ID)
		}
		verb, begins := verbs[r.What]
		if !begins || !alive[r.Node] || r.Unknown() {
			continue
		}
		works := j.byRequest[r.ID]
		switch {
		case !r.Accepted() && len(works) > 0:
			j.blame("request %s (%s of node %s) was refused with %d and yet began work %s", r.ID, r.What, r.Node, r.Status, works[0].ID)
		case r.Accepted() && len(works) == 0:
			j.blame("request %s (%s of node %s) was accepted with %d and no work was recorded", r.ID, r.What, r.Node, r.Status)
		case r.Accepted() && works[0].Verb != verb && (verb != work.Power || !j.continues(works[0])):
			j.blame("request %s (%s of node %s) began work %s, a %s", r.ID, r.What, r.Node, works[0].ID, works[0].Verb)
		}
	}
	for id, works := range j.byRequest {
		if len(works) > 1 {
			j.blame("request %s began %d pieces of work: %s and %s", id, len(works), works[0].ID, works[1].ID)
		}
	}
}

// continues reports whether w took the place of a flow of its verb, as one does that does something
// for the flow while that waits.
func (j *judge) continues(w *Work) bool {
	list := j.byNode[w.Node]
	i := slices.Index(list, w)
	return i > 0 && list[i-1].Verb == w.Verb && list[i-1].State == superseded
}
