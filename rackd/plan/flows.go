package plan

import (
	"slices"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
)

// Verify lists the steps that run when a node is verified.
func (r *Request) Verify() []driver.Step {
	return sorted(r.reprioritised(r.outOfBand(driver.InVerify)), driver.InVerify)
}

// Clean lists the steps of automated cleaning: all with a priority that are known so far,
// after the one that discovers what the agent offers, if there is one.
func (r *Request) Clean() ([]driver.Step, error) {
	known, _, err := r.withAgents(driver.InClean, r.promised(r.outOfBand(driver.InClean)))
	if err != nil {
		return nil, err
	}
	steps := sorted(known, driver.InClean)
	b := r.inBand()
	if b == nil {
		return steps, nil
	}
	return slices.Concat(b.Up(r.Node, driver.InClean), steps, b.Down(r.Node, driver.InClean)), nil
}

// Listed lists the asked steps of a manual cleaning or a service in their order,
// between those that boot the ramdisk and leave it, where one of them needs it. Those
// that only the agent may have are left out until it has been asked.
func (r *Request) Listed(f driver.Flows) ([]driver.Step, error) {
	known, whole, err := r.known(f)
	if err != nil {
		return nil, err
	}
	b := r.inBand()
	mayBoot := b != nil && !r.NoRamdisk
	var steps []driver.Step
	var unknown []driver.AskedStep
	needsAgent := false
	for _, a := range r.Asked {
		s, found, err := r.resolve(f, known, a)
		switch {
		case err != nil:
			return nil, err
		case !found:
			unknown = append(unknown, a)
			continue
		}
		needsAgent = needsAgent || !s.NoRamdisk
		steps = append(steps, s)
	}
	if len(unknown) > 0 && (whole || !mayBoot) {
		return nil, r.unknown(f, unknown, known)
	}
	if err := r.lacking(f, unknown); err != nil {
		return nil, err
	}
	booted := len(r.Behind) > 0 // whether this rackd would have done so or not
	if !mayBoot || !needsAgent && len(unknown) == 0 && !booted {
		return steps, nil
	}
	return slices.Concat(b.Up(r.Node, f), steps, b.Down(r.Node, f)), nil
}

// Deploy lists the steps of a deploy, highest priority first. An asked step takes the
// place of the driver's; priority 0 disables it. Only those that every node has may be
// asked for more than once.
func (r *Request) Deploy() ([]driver.Step, error) {
	known, whole, err := r.known(driver.InDeploy)
	if err != nil {
		return nil, err
	}
	steps := slices.Clone(known)
	var later []driver.AskedStep
	for i, a := range r.Asked {
		if err := r.keeps(a); err != nil {
			return nil, err
		}
		// A pause or a reboot takes nothing's place: it may be asked for between any others.
		if s, own := r.own(a); own {
			steps = append(steps, s)
			continue
		}
		same := func(o driver.AskedStep) bool { return o.Interface == a.Interface && o.Step == a.Step }
		if slices.ContainsFunc(r.Asked[:i], same) {
			return nil, invalid("node %s: deploy step %s.%s is asked for twice", r.Node.Label(), a.Interface, a.Step)
		}
		s, found, err := r.resolve(driver.InDeploy, known, a)
		if err != nil {
			return nil, err
		}
		if !found {
			later = append(later, a)
			continue
		}
		steps = slices.DeleteFunc(steps, func(o driver.Step) bool { return o.Interface == a.Interface && o.Name == a.Step })
		steps = append(steps, s)
	}
	steps = sorted(steps, driver.InDeploy)
	discovers := slices.IndexFunc(steps, func(s driver.Step) bool { return s.Discovers })
	if len(later) > 0 && (whole || discovers < 0) {
		return nil, r.unknown(driver.InDeploy, later, known)
	}
	if err := r.lacking(driver.InDeploy, later); err != nil {
		return nil, err
	}
	if !whole || discovers < 0 {
		return steps, nil
	}
	// What the agent offers cannot come before the agent, whatever its priority.
	var before, after []driver.Step
	for i, s := range steps {
		if i <= discovers && !s.InBand {
			before = append(before, s)
		} else {
			after = append(after, s)
		}
	}
	return append(before, after...), nil
}

// keeps refuses a step of a deploy that would take the partition which the deploy is to keep. It does so before the machine is touched:
// the agent refuses an erasure too, but with the instance down.
func (r *Request) keeps(a driver.AskedStep) error {
	takes := a.Interface == "raid" || a.Interface == "deploy" && strings.HasPrefix(a.Step, "erase_devices")
	if a.OnChildren || a.Priority == 0 || !takes || !driver.PreservesEphemeral(r.Node) {
		return nil
	}
	return invalid("node %s: instance_info has preserve_ephemeral, and the deploy step %s.%s may take the partition that is to stay: leave out one of the two", r.Node.Label(), a.Interface, a.Step)
}
