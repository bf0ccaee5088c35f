package verdict

import (
	"cmp"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
)

// projection holds that the database shows what the racks reported: each event took
// effect once, in the order of its stream, and those of older epochs did not.
func (j *judge) projection() {
	reports := j.eventsOf()
	entries := map[string][]Entry{}
	for _, h := range j.History {
		// The first line of a piece of work is the request's, by central itself.
		if h.Work != "" && !strings.Contains(h.Text, " accepted") {
			entries[h.Work] = append(entries[h.Work], h)
		}
	}
	for i := range j.Works {
		w := &j.Works[i]
		if w.State != ended {
			continue // how far the reports of superseded work came is a matter of luck
		}
		events := effective(reports[w.ID])
		j.ending(w, events)
		j.history(w, events, entries[w.ID])
	}
	for _, n := range j.Nodes {
		j.observation(n, reports)
	}
	j.power()
}

func (j *judge) ending(w *Work, events []work.Event) {
	if len(events) == 0 {
		j.blame("node %s: work %s (%s) ended and no rack reported anything of it", w.Node, w.ID, w.Verb)
		return
	}
	last := events[len(events)-1]
	switch {
	case last.Kind != work.WorkEnded:
		j.blame("node %s: work %s (%s) ended and no rack reported its end; the last report is %s", w.Node, w.ID, w.Verb, last.ID)
	case last.Error != w.Error:
		j.blame("node %s: work %s (%s) ended with %q, its rack reported %q", w.Node, w.ID, w.Verb, w.Error, last.Error)
	}
}

func (j *judge) history(w *Work, events []work.Event, entries []Entry) {
	var want []work.Event
	maybe := map[int]bool{} // what of it may be missing
	var shown *work.Event   // the last event of the work that said in which state the node is
	for _, e := range events {
		for _, l := range e.Lines() {
			told := e
			told.Time, told.Phase = l.Time, l.Phase
			want = append(want, told)
		}
		if !reportsState(e) {
			continue
		}
		// A state that is said again, by the next owner or every few minutes, is no entry.
		again := shown != nil && e.Kind == work.StateChanged && e.Error == "" && e.State == shown.State && e.Target == shown.Target
		if first := shown == nil && e.Epoch > 1 && e.Kind == work.StateChanged && e.Error == ""; first {
			maybe[len(want)] = true // owners of before, whose reports do not count any more, may have said so
		}
		if shown = &e; !again {
			want = append(want, e)
		}
	}
	skipped := 0
	for k, e := range want {
		i := k - skipped
		if maybe[k] && (i >= len(entries) || !entries[i].of(e)) {
			skipped++
			continue
		}
		if i >= len(entries) {
			j.blame("node %s: work %s (%s): history lacks event %s (%s %s%s)", w.Node, w.ID, w.Verb, e.ID, e.Kind, e.State, e.Phase)
			return
		}
		if h := entries[i]; !h.of(e) {
			j.blame("node %s: work %s (%s): line %d of history is %q by %s at %s, event %s (%s %s%s) by %s at %s was expected",
				w.Node, w.ID, w.Verb, i+1, h.Text, h.Conductor, h.At, e.ID, e.Kind, e.State, e.Phase, e.Rackd, e.Time)
			return
		}
	}
	if extra := len(entries) - len(want) + skipped; extra > 0 {
		j.blame("node %s: work %s (%s): history has %d lines that no event stands for, such as %q", w.Node, w.ID, w.Verb, extra, entries[len(want)-skipped].Text)
	}
}

// of reports whether a line of history tells of e. Central takes no time to come from a rackd's clock: a line of such an event
// has central's own, earlier one, and must then name what e reports.
func (h Entry) of(e work.Event) bool {
	at := e.Time.UTC().Truncate(time.Microsecond)
	if h.Conductor != e.Rackd {
		return false
	}
	names := e.Kind != work.StateChanged || e.Phase != "" || strings.Contains(h.Text, string(e.State))
	return h.At.Equal(at) || h.At.Before(at) && names
}

// observation holds a node's row to the last report of its last generation.
func (j *judge) observation(n Node, reports map[string][]work.Event) {
	last := j.newest(n.UUID)
	if last == nil || last.Generation != n.Observed || last.State != ended {
		return
	}
	events := effective(reports[last.ID])
	for i := len(events) - 1; i >= 0; i-- {
		e := events[i]
		if !reportsState(e) {
			continue
		}
		if n.ObservedState != e.State || n.ObservedTarget != e.Target || n.ObservedError != e.Error {
			j.blame("node %s (%s): observed is %q, bound for %q, error %q; the rack's last report %s says %q, %q, %q",
				n.UUID, n.Name, n.ObservedState, n.ObservedTarget, n.ObservedError, e.ID, e.State, e.Target, e.Error)
		}
		return
	}
}

// reportsState reports whether an event says in which state its node is, which is kept in the history.
func reportsState(e work.Event) bool {
	return e.Kind == work.StateChanged || e.Kind == work.WorkEnded || e.Kind == work.ErrandEnded
}

// power holds a node's power state to what was reported last, fenced reports left out.
func (j *judge) power() {
	type report struct {
		work.Event
		sure bool
	}
	last, newest := map[string]report{}, map[string]work.Event{}
	for _, s := range j.Sites {
		for _, e := range s.Events {
			if e.Work != "" {
				if old, known := newest[e.Node]; known && cmp.Or(cmp.Compare(e.Generation, old.Generation), cmp.Compare(e.Epoch, old.Epoch), cmp.Compare(e.Seq, old.Seq)) <= 0 {
					continue
				}
				newest[e.Node] = e
			}
			if e.Power != "" {
				w := j.works[e.Work]
				last[e.Node] = report{e, e.Work == "" || w != nil && w.State == ended}
			}
		}
	}
	for _, n := range j.Nodes {
		if r, known := last[n.UUID]; known && r.sure && n.Power != r.Power {
			j.blame("node %s (%s): its power is shown as %q; %s reported %q last, at %s", n.UUID, n.Name, n.Power, r.Rackd, r.Power, r.Time)
		}
	}
}
