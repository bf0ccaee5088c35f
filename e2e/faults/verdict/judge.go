package verdict

import (
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/e2e/faults/witness"
	"github.com/ironyard/ironyard/protocol/work"
)

// Judge returns every violation that the evidence shows.
func Judge(e *Evidence) []string {
	j := &judge{Evidence: e, works: map[string]*Work{}, byNode: map[string][]*Work{}, byRequest: map[string][]*Work{}}
	for i := range e.Works {
		w := &e.Works[i]
		j.works[w.ID] = w
		j.byNode[w.Node] = append(j.byNode[w.Node], w)
		if w.RequestID != "" {
			j.byRequest[w.RequestID] = append(j.byRequest[w.RequestID], w)
		}
	}
	j.requests()
	j.rest()
	j.projection()
	j.keys()
	j.owners()
	j.machines()
	return j.found
}

type judge struct {
	*Evidence
	works     map[string]*Work
	byNode    map[string][]*Work // in order of generation
	byRequest map[string][]*Work
	found     []string
}

func (j *judge) blame(format string, args ...any) {
	j.found = append(j.found, fmt.Sprintf(format, args...))
}

// States of a row of works.
const (
	open       = "open"
	ended      = "ended"
	superseded = "superseded"
)

// newest returns a node's work of the highest generation, nil for none.
func (j *judge) newest(node string) *Work {
	list := j.byNode[node]
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// owners holds what must be true of the versions of a node's work document: a work's
// epoch never goes back and grows when the owner changes, giving it away excepted. What
// counts is the order in which they were written: a server that is catching up after it had lost its
// disk shows them all again, those too that nobody saw when they were new.
func (j *judge) owners() {
	type last struct {
		id, owner string
		epoch     uint64
	}
	type version struct {
		node, id, owner      string
		revision, epoch, seq uint64
	}
	seen, before := map[string]last{}, map[version]bool{}
	sights := slices.Clone(j.Sights)
	slices.SortStableFunc(sights, func(a, b witness.Sight) int { return a.Written.Compare(b.Written) })
	for _, s := range sights {
		this := version{s.Node, s.Doc.ID, s.Doc.Owner, s.Revision, s.Doc.Epoch, s.Doc.Seq}
		if s.Gone || s.Revision != 0 && before[this] {
			continue
		}
		before[this] = true
		now := last{s.Doc.ID, s.Doc.Owner, s.Doc.Epoch}
		was, known := seen[s.Node]
		seen[s.Node] = now
		switch {
		case !known || was.id != now.id:
		case now.epoch < was.epoch:
			j.blame("node %s: work %s went back from epoch %d (owner %q) to %d (owner %q) at revision %d",
				s.Node, now.id, was.epoch, was.owner, now.epoch, now.owner, s.Revision)
		case now.owner != was.owner && now.owner != "" && now.epoch == was.epoch:
			j.blame("node %s: work %s went from %q to %q within epoch %d", s.Node, now.id, was.owner, now.owner, now.epoch)
		}
	}
}

// eventsOf returns the events of each piece of work in the order of their stream.
func (j *judge) eventsOf() map[string][]work.Event {
	list := map[string][]work.Event{}
	for _, s := range j.Sites {
		for _, e := range s.Events {
			if e.Work != "" {
				list[e.Work] = append(list[e.Work], e)
			}
		}
	}
	return list
}

// effective leaves out what fencing drops: events of an older epoch, repetitions, and
// what follows the work's end.
func effective(events []work.Event) (out []work.Event) {
	var epoch, seq uint64
	for _, e := range events {
		if e.Epoch < epoch || e.Epoch == epoch && e.Seq <= seq {
			continue
		}
		epoch, seq = e.Epoch, e.Seq
		out = append(out, e)
		if e.Kind == work.WorkEnded {
			break
		}
	}
	return out
}
