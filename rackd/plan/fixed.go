package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Fixed returns the named step of flow f that p of a work's plan stands for. It does not look
// at priorities and flags: what the plan says is run, or the error says why it cannot be.
func (r *Request) Fixed(f driver.Flows, p work.Planned) (driver.Step, error) {
	all, err := r.all(f)
	if err != nil {
		return driver.Step{}, err
	}
	if p.Asked == 0 {
		s, ok := find(all, p.Interface, p.Step)
		if !ok {
			return s, r.gone(f, p)
		}
		s.Priority = p.Priority
		return s, nil
	}
	if p.Asked > len(r.Asked) || r.Asked[p.Asked-1].Interface != p.Interface || r.Asked[p.Asked-1].Step != p.Step {
		return driver.Step{}, invalid("node %s: %s step %s.%s of the work's list should be step %d of the request, but that is a different step",
			r.Node.Label(), f, p.Interface, p.Step, p.Asked)
	}
	a := r.Asked[p.Asked-1]
	s, own := r.own(a)
	if !own {
		var ok bool
		if s, ok = find(all, p.Interface, p.Step); !ok {
			return s, r.gone(f, p)
		}
		s.Args, s.Asked = a.Args, a.Place
		err = r.fits(f, s)
	}
	s.Priority = p.Priority
	return s, err
}

// all lists the steps that may be in the plan of flow f.
func (r *Request) all(f driver.Flows) ([]driver.Step, error) {
	if f == driver.InVerify {
		return r.outOfBand(f), nil
	}
	steps, _, err := r.known(f)
	if b := r.inBand(); b != nil && f != driver.InDeploy {
		steps = slices.Concat(steps, b.Up(r.Node, f), b.Down(r.Node, f))
	}
	return steps, err
}

// promised returns those of the out-of-band steps that are in the list which grows, in its order. A step that only this
// rackd has is not run, nor does it keep the agent's of that name out of the list.
func (r *Request) promised(steps []driver.Step) []driver.Step {
	if len(r.Behind) == 0 {
		return steps
	}
	var kept []driver.Step
	for _, p := range r.Behind {
		if s, ok := find(steps, p.Interface, p.Step); ok {
			kept = append(kept, s)
		}
	}
	return kept
}

// CleanPriorities are those by which the list of an automated cleaning grows under any rackd: r's, and for other out-of-band
// steps their own. What r does not run of its own accord has 0, so that no successor runs it, nor the agent's of its name.
func (r *Request) CleanPriorities() map[string]int {
	all := map[string]int{}
	for _, s := range r.outOfBand(driver.InClean) {
		all[name(s)] = s.Priority
	}
	maps.Copy(all, r.Priorities)
	return all
}

func (r *Request) gone(f driver.Flows, p work.Planned) error {
	return fmt.Errorf("node %s: %s step %s.%s was in the plan when the work began, but this rackd has no such step: its version or its hardware interfaces differ. Make the rackds of the group alike and send the request again",
		r.Node.Label(), f, p.Interface, p.Step)
}

// Of returns the plan's entry for s.
func Of(s driver.Step) work.Planned {
	return work.Planned{Interface: s.Interface, Step: s.Name, Priority: s.Priority, Asked: s.Asked, Boots: s.Boots}
}

// key tells the entries of a plan apart, as far as they can be.
type key struct {
	kind, step string
	asked      int
}

func keyOf(p work.Planned) key { return key{p.Interface, p.Step, p.Asked} }

// Grow returns the list that old becomes once the agent's steps are known: up to the step at
// index at it stays, and so does the order of what was to follow. all is the list as it would
// be made now. What all lacks of old is an error; what it has besides is taken in only if the
// agent runs it, if a request asks for it, or if open says that old leaves all behind at open.
func Grow(old []work.Planned, at int, all []driver.Step, open bool) ([]work.Planned, error) {
	grown, left := slices.Clone(old[:at+1]), map[key]int{}
	for _, p := range old[:at+1] {
		left[keyOf(p)]++
	}
	waiting := old[at+1:]
	for _, s := range all {
		p := Of(s)
		switch {
		case left[keyOf(p)] > 0: // it has run
			left[keyOf(p)]--
			continue
		case len(waiting) > 0 && keyOf(waiting[0]) == keyOf(p):
			p, waiting = waiting[0], waiting[1:]
		case !open && !s.InBand && s.Asked == 0:
			continue // the program that made the list had no such step
		}
		grown = append(grown, p)
	}
	if len(waiting) > 0 {
		return nil, fmt.Errorf("step %s.%s was in the plan when the work began, but this rackd does not have it, or has it at another place: its version or its flags differ. Make the rackds of the group alike and send the request again",
			waiting[0].Interface, waiting[0].Step)
	}
	return grown, nil
}
