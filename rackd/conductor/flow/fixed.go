package flow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/plan"
)

// Fixed returns the steps of d's work: those of the list in its checkpoint. The first owner
// makes the list; the checkpoint of the first step that touches anything carries it.
func (c *Catalog) Fixed(d *work.Document, t *driver.Task) ([]Step, error) {
	if d.Verb == work.Abort && d.Args.Aborts != "" && !d.Checkpoint.Aborting {
		return c.cutShort(d, t)
	}
	if d.Checkpoint.Plan != nil {
		return c.listed(d, t)
	}
	if d.Verb == work.Service && d.Args.InRamdisk {
		t.Facts[driver.FactBooted] = "yes"
		if !d.Args.DisableRamdisk { // else no step may boot it again, or wait for its agent
			t.Facts[driver.FactBoot] = driver.BootRamdisk
		}
	}
	steps, err := c.Steps(d, t)
	if err == nil {
		d.Checkpoint.Plan = listOf(steps)
		c.keepPriorities(d, t, steps)
		c.keepNames(d, t, steps)
	}
	return steps, err
}

// factPriorities are the priorities of clean steps by which the list of an automated cleaning is made, as JSON. The list
// grows once the agent's steps are known, under another rackd perhaps: its own flags and priorities do not count then.
const factPriorities = "clean_priorities"

// keepPriorities keeps them where the list is still to grow.
func (c *Catalog) keepPriorities(d *work.Document, t *driver.Task, steps []Step) {
	if (d.Verb == work.Provide || d.Verb == work.Delete) && slices.ContainsFunc(steps, func(s Step) bool { return s.Discovers }) {
		p := c.plan(d, t)
		p.Priorities = c.cfg.CleanPriorities
		raw, err := json.Marshal(p.CleanPriorities())
		if err == nil {
			t.Facts[factPriorities] = string(raw)
		}
	}
}

// factDeployNames are the names of a deploy's steps that its rack had when the list was made, divided by spaces (plan.Request, Had).
const factDeployNames = "deploy_names"

// deploys reports whether d's flow is a deploy or a rebuild.
func deploys(d *work.Document) bool { return d.Flow() == work.Deploy || d.Flow() == work.Rebuild }

// keepNames keeps them where the list is still to grow.
func (c *Catalog) keepNames(d *work.Document, t *driver.Task, steps []Step) {
	if deploys(d) && slices.ContainsFunc(steps, func(s Step) bool { return s.Discovers }) {
		t.Facts[factDeployNames] = strings.Join(c.plan(d, t).DeployNames(), " ")
	}
}

// cleanPriorities are those that count for t's work.
func (c *Catalog) cleanPriorities(t *driver.Task) (kept map[string]int, err error) {
	raw, ok := t.Facts[factPriorities]
	if !ok {
		return c.cfg.CleanPriorities, nil
	}
	if err := json.Unmarshal([]byte(raw), &kept); err != nil {
		return nil, fmt.Errorf("node %s: the priorities of clean steps in the checkpoint cannot be read: %w", t.Node.Label(), err)
	}
	return kept, nil
}

// listed finds the steps of the list in d's checkpoint.
func (c *Catalog) listed(d *work.Document, t *driver.Task) ([]Step, error) {
	f, err := flowOf(d.Verb, t)
	if err != nil {
		return nil, err
	}
	frame, err := c.frame(f, d, t)
	if err != nil {
		return nil, err
	}
	if d.Flow() != d.Verb { // an abort, whose list may begin with a step of what it aborts
		if f, err = flowOf(d.Flow(), t); err != nil {
			return nil, err
		}
		more, err := f.frame(c, d, t)
		if err != nil {
			return nil, err
		}
		frame = append(frame, more...)
	}
	named := c.plan(d, t)
	var steps []Step
	for _, p := range d.Checkpoint.Plan {
		at := slices.IndexFunc(frame, func(s Step) bool { return p.Asked == 0 && s.Interface == p.Interface && s.Name == p.Step })
		if at >= 0 {
			steps = append(steps, frame[at])
			continue
		}
		s, err := named.Fixed(f.in, p)
		if err != nil {
			return nil, err
		}
		steps = append(steps, Step{Step: s})
	}
	return numbered(steps), nil
}

// Grow takes the agent's steps, which the step at index at has asked for, into the list. The
// checkpoint that says so is the one that the step has ended.
func (c *Catalog) Grow(d *work.Document, t *driver.Task, at int) ([]Step, error) {
	steps, err := c.Steps(d, t)
	if err != nil {
		return nil, err
	}
	all := make([]driver.Step, len(steps))
	for i, s := range steps {
		all[i] = s.Step
	}
	// Rackds of before listed nothing behind that step, but for a deploy.
	open := len(behind(d)) == 0 && flows[d.Verb].in != driver.InDeploy
	grown, err := plan.Grow(d.Checkpoint.Plan, at, all, open)
	if err != nil {
		return nil, err
	}
	d.Checkpoint.Plan = grown
	return c.listed(d, t)
}

// behind is what d's list has behind the running step, nothing where the list is still to be made.
func behind(d *work.Document) []work.Planned {
	cp := &d.Checkpoint
	return cp.Plan[min(cp.Index+1, len(cp.Plan)):]
}

func listOf(steps []Step) []work.Planned {
	list := make([]work.Planned, len(steps))
	for i, s := range steps {
		list[i] = plan.Of(s.Step)
	}
	return list
}
