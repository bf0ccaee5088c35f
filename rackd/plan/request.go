package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Request is what a plan is made of.
type Request struct {
	Hardware *driver.Hardware
	Node     *node.Document
	// Facts of the work so far, among them what the agent offers.
	Facts map[string]string
	// Asked are the steps of the request and of what it names.
	Asked []driver.AskedStep
	// Priorities take the place of the steps' own, by "interface.step"; 0 disables.
	Priorities map[string]int
	// NoRamdisk: the ramdisk must not be booted.
	NoRamdisk bool
	// Instance: the flow takes down an instance that runs. A step that the agent is known to lack is refused before that.
	Instance bool
	// Behind is what a list that grows has behind the step that asks the agent. Empty: no list grows, or a rackd of before
	// has begun it, which listed nothing there.
	Behind []work.Planned
	// Had are the names of the steps that a deploy had of the rackd that made its list, run or not. The agent's steps of these names stay
	// hidden, and what this rackd has besides hides none. Nil: the list is being made, or a rackd of before has made it.
	Had []string
	// Own returns the step behind a name that no driver has to offer ("reboot").
	Own func(driver.AskedStep) (driver.Step, bool)
}

// order is how steps of one priority follow each other: by kind of interface, as in
// Ironic.
var order = map[driver.Flows][]string{
	driver.InClean:   {"vendor", "power", "management", "firmware", "deploy", "bios", "raid"},
	driver.InDeploy:  {"vendor", "power", "management", "firmware", "deploy", "bios", "raid"},
	driver.InService: {"network", "vendor", "power", "management", "firmware", "deploy", "bios", "raid"},
	driver.InVerify: {"power", "management", "firmware", "inspect", "deploy", "boot", "bios", "raid", "vendor", "network",
		"storage", "console", "rescue"},
}

func name(s driver.Step) string { return s.Interface + "." + s.Name }

// find returns the step of that name.
func find(steps []driver.Step, kind, step string) (driver.Step, bool) {
	i := slices.IndexFunc(steps, func(s driver.Step) bool { return s.Interface == kind && s.Name == step })
	if i < 0 {
		return driver.Step{}, false
	}
	return steps[i], true
}

// outOfBand lists the steps of f that the node's interfaces contribute.
func (r *Request) outOfBand(f driver.Flows) []driver.Step {
	var steps []driver.Step
	impls := r.Hardware.Kinds()
	for _, kind := range order[f] {
		source, ok := impls[kind].Impl.(driver.StepSource)
		if !ok {
			continue
		}
		for _, s := range source.NamedSteps(r.Node) {
			if s.Interface == kind && s.Has(f) {
				steps = append(steps, s)
			}
		}
	}
	return steps
}

// inBand returns what boots a ramdisk for the node, nil when nothing does.
func (r *Request) inBand() driver.InBand {
	b, _ := r.Hardware.Deploy().(driver.InBand)
	return b
}

// known lists the steps of f that may be named; whole is false while what the agent
// offers is not known yet.
func (r *Request) known(f driver.Flows) (steps []driver.Step, whole bool, err error) {
	steps = r.outOfBand(f)
	if f == driver.InDeploy {
		steps = append(r.Hardware.Deploy().DeploySteps(r.Node), steps...)
		if r.Had != nil {
			steps = slices.DeleteFunc(steps, func(s driver.Step) bool { return !slices.Contains(r.Had, name(s)) })
		}
	}
	return r.withAgents(f, steps)
}

// DeployNames are the names that Had is to have in the flow that is being planned.
func (r *Request) DeployNames() (names []string) {
	for _, s := range slices.Concat(r.Hardware.Deploy().DeploySteps(r.Node), r.outOfBand(driver.InDeploy)) {
		names = append(names, name(s))
	}
	return names
}

// withAgents adds to the steps of f those that the agent offers; whole is false while they are not known yet.
func (r *Request) withAgents(f driver.Flows, steps []driver.Step) (all []driver.Step, whole bool, err error) {
	b := r.inBand()
	if b == nil {
		return r.reprioritised(steps), true, nil
	}
	offered, ok, err := b.Offered(r.Facts, f)
	if err != nil {
		return nil, false, err
	}
	for _, s := range offered {
		if _, double := find(steps, s.Interface, s.Name); ok && !double && !slices.Contains(r.Had, name(s)) {
			steps = append(steps, s)
		}
	}
	return r.reprioritised(steps), ok, nil
}

func (r *Request) reprioritised(steps []driver.Step) []driver.Step {
	for i := range steps {
		if p, set := r.Priorities[name(steps[i])]; set {
			steps[i].Priority = p
		}
	}
	return steps
}

// sorted returns the steps that run by themselves, highest priority first.
func sorted(steps []driver.Step, f driver.Flows) []driver.Step {
	steps = slices.DeleteFunc(slices.Clone(steps), func(s driver.Step) bool { return s.Priority <= 0 })
	rank := func(s driver.Step) int {
		if at := slices.Index(order[f], s.Interface); at >= 0 {
			return at
		}
		return len(order[f])
	}
	slices.SortStableFunc(steps, func(a, b driver.Step) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(rank(a), rank(b)))
	})
	return steps
}

// own returns the step that a stands for if every node has it, with its arguments.
func (r *Request) own(a driver.AskedStep) (s driver.Step, own bool) {
	if r.Own == nil {
		return s, false
	}
	s, own = r.Own(a)
	s.Args, s.Priority, s.Asked = a.Args, a.Priority, a.Place
	return s, own
}

// resolve returns the step that a stands for, with its arguments. found is false, and
// err nil, for a step that nobody knows.
func (r *Request) resolve(f driver.Flows, known []driver.Step, a driver.AskedStep) (s driver.Step, found bool, err error) {
	if s, own := r.own(a); own {
		if a.OnChildren { // judged for each child, where it is known
			return s, true, nil
		}
		return s, true, arguments(f, s)
	}
	if s, found = find(known, a.Interface, a.Step); !found {
		return s, false, nil
	}
	s.Args, s.Asked = a.Args, a.Place
	if f != driver.InDeploy {
		return s, true, r.fits(f, s)
	}
	if s.Priority = a.Priority; s.Priority == 0 {
		return s, true, nil
	}
	if a.Interface == "deploy" && a.Step == "deploy" {
		return s, true, invalid("deploy step deploy.deploy is a core step: the only change allowed is to disable it by priority 0")
	}
	return s, true, r.fits(f, s)
}

// arguments checks those of s.
func arguments(f driver.Flows, s driver.Step) error {
	var unexpected, missing []string
	for _, arg := range slices.Sorted(maps.Keys(s.Args)) {
		if _, ok := s.Takes[arg]; !ok {
			unexpected = append(unexpected, arg)
		}
	}
	for _, arg := range slices.Sorted(maps.Keys(s.Takes)) {
		if _, given := s.Args[arg]; s.Takes[arg].Required && !given {
			missing = append(missing, arg+" ("+s.Takes[arg].Description+")")
		}
	}
	switch {
	case len(unexpected) > 0:
		return invalid("%s step %s has these unexpected arguments: %s", f, name(s), strings.Join(unexpected, ", "))
	case len(missing) > 0:
		return invalid("%s step %s is missing these required arguments: %s", f, name(s), strings.Join(missing, ", "))
	}
	return nil
}

// fits checks the arguments of s as far as fields tell, and that it may run without the ramdisk where it has to.
func (r *Request) fits(f driver.Flows, s driver.Step) error {
	if err := arguments(f, s); err != nil {
		return err
	}
	if r.NoRamdisk && !s.NoRamdisk {
		return invalid("%s step %s requires booting a ramdisk, which disable_ramdisk forbids", f, name(s))
	}
	return checked(f, r.Node, s)
}

func checked(f driver.Flows, n *node.Document, s driver.Step) error {
	if s.Check == nil || withheld(s.Args) {
		return nil
	}
	if err := s.Check(n, s.Args); err != nil {
		return invalid("%s step %s: %w", f, name(s), err)
	}
	return nil
}

// Fits checks the arguments of a step that flow f of another node is to run on n, as far as fields tell.
func Fits(f driver.Flows, n *node.Document, s driver.Step) error {
	if err := arguments(f, s); err != nil {
		return err
	}
	return checked(f, n, s)
}

// Withheld stands for the value of an argument that a central of before has not told. It is judged when the flow's list is made.
var Withheld any = withheldValue{}

type withheldValue struct{}

func withheld(args map[string]any) bool {
	for _, v := range args {
		if v == Withheld {
			return true
		}
	}
	return false
}

// StepError says what is wrong with the steps that were asked for. It is a driver.ErrInvalid.
type StepError struct{ err error }

func (e *StepError) Error() string { return e.err.Error() }
func (e *StepError) Unwrap() error { return e.err }

func invalid(format string, args ...any) error {
	return &StepError{fmt.Errorf("%w: %w", fmt.Errorf(format, args...), driver.ErrInvalid)}
}

// unknown is the error about steps that nobody has.
func (r *Request) unknown(f driver.Flows, asked []driver.AskedStep, known []driver.Step) error {
	if len(asked) == 0 {
		return nil
	}
	var errs []error
	for _, a := range asked {
		errs = append(errs, fmt.Errorf("node does not support this %s step: %s.%s", f, a.Interface, a.Step))
	}
	var names []string
	for _, s := range known {
		names = append(names, name(s))
	}
	return invalid("node %s: %w (it has: %s)", r.Node.Label(), errors.Join(errs...), strings.Join(names, ", "))
}

// lacking refuses those of the asked steps that only the agent may have and, by what it has told before, does not have.
func (r *Request) lacking(f driver.Flows, asked []driver.AskedStep) error {
	b, ok := r.Hardware.Deploy().(driver.Remembers)
	if !ok || !r.Instance {
		return nil
	}
	names, known := b.Remembered(r.Node, f)
	if !known {
		return nil
	}
	var errs []error
	for _, a := range asked {
		if !slices.Contains(names, a.Interface+"."+a.Step) {
			errs = append(errs, fmt.Errorf("node does not support this %s step: %s.%s", f, a.Interface, a.Step))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	const advice = "Each %s that boots it without such a step asks it again: where the machine has changed since, send one. " +
		"If driver_info names a ramdisk that was replaced under its URL since, give it another URL there"
	return invalid("node %s: %w (its ramdisk told last that it has: %s). "+advice, r.Node.Label(), errors.Join(errs...), strings.Join(names, ", "), f)
}

// Named returns the out-of-band step that a node's interface contributes under a name.
func Named(hw *driver.Hardware, n *node.Document, kind, step string) (driver.Step, bool) {
	source, ok := hw.Kinds()[kind].Impl.(driver.StepSource)
	if !ok {
		return driver.Step{}, false
	}
	return find(source.NamedSteps(n), kind, step)
}
