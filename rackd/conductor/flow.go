package conductor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// flowStep is a step and the transition its end causes.
type flowStep struct {
	driver.Step
	then          provision.Event // empty: the state stays
	clearInstance bool
}

func (s flowStep) id() string { return s.Interface + "." + s.Name }

// flows builds, for each verb, the steps of its work. It is a function of the
// documents alone, so that a successor gets the same steps.
var flows = map[work.Verb]func(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error){
	work.Manage:   verifyFlow,
	work.Adopt:    verifyFlow,
	work.Provide:  provideFlow,
	work.Clean:    manualCleanFlow,
	work.Service:  manualCleanFlow,
	work.Inspect:  inspectFlow,
	work.Deploy:   deployFlow,
	work.Rebuild:  deployFlow,
	work.Delete:   deleteFlow,
	work.Rescue:   rescueFlow,
	work.Unrescue: unrescueFlow,
	work.Abort:    abortFlow,
	work.Power:    powerFlow,
}

func (c *Conductor) flow(d *work.Document, t *driver.Task) ([]flowStep, error) {
	build, ok := flows[d.Verb]
	if !ok {
		return nil, fmt.Errorf("node %s: this rackd does not know how to %q: is it older than central?", t.Node.Label(), d.Verb)
	}
	return build(c, d, t)
}

func plain(steps []driver.Step) []flowStep {
	out := make([]flowStep, len(steps))
	for i, s := range steps {
		out[i] = flowStep{Step: s}
	}
	return out
}

func byPriority(steps []driver.Step) []driver.Step {
	steps = slices.DeleteFunc(slices.Clone(steps), func(s driver.Step) bool { return s.Priority <= 0 })
	slices.SortStableFunc(steps, func(a, b driver.Step) int { return cmp.Compare(b.Priority, a.Priority) })
	return steps
}

// validateStep checks the fields of the kinds of interface that a flow uses.
func validateStep(kinds ...string) flowStep {
	return flowStep{Step: driver.Step{Interface: "conductor", Name: "validate", Kind: driver.Repeatable,
		Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			impls := t.Hardware.Kinds()
			for _, kind := range slices.Sorted(maps.Keys(impls)) {
				if !slices.Contains(kinds, kind) {
					continue
				}
				if err := impls[kind].Impl.Validate(t.Node); err != nil {
					return driver.Done(), fmt.Errorf("node %s: the %s interface %q refuses the node's fields: %w", t.Node.Label(), kind, impls[kind].Name, err)
				}
			}
			return driver.Done(), nil
		}}}
}

func verifyFlow(c *Conductor, _ *work.Document, _ *driver.Task) ([]flowStep, error) {
	return []flowStep{validateStep("power", "management"), {Step: c.verifyPower()}}, nil
}

func provideFlow(c *Conductor, _ *work.Document, t *driver.Task) ([]flowStep, error) {
	return append([]flowStep{validateStep("power", "management")}, c.cleaning(t)...), nil
}

// cleaning is automated cleaning, empty when the node or the rack does without.
func (c *Conductor) cleaning(t *driver.Task) []flowStep {
	wanted := c.cfg.AutomatedClean
	if t.Node.AutomatedClean != nil {
		wanted = *t.Node.AutomatedClean
	}
	if !wanted {
		return nil
	}
	return plain(t.Hardware.Deploy().CleanSteps(t.Node))
}

func asked(d *work.Document) []driver.AskedStep {
	var out []driver.AskedStep
	for _, s := range d.Args.Steps {
		out = append(out, driver.AskedStep{Interface: s.Interface, Step: s.Step, Args: s.Args})
	}
	return out
}

func manualCleanFlow(_ *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error) {
	steps, err := t.Hardware.Deploy().ManualCleanSteps(t.Node, asked(d))
	return append([]flowStep{validateStep("power", "management")}, plain(steps)...), err
}

func inspectFlow(_ *Conductor, _ *work.Document, t *driver.Task) ([]flowStep, error) {
	i := t.Hardware.Inspect()
	if i == nil {
		return nil, fmt.Errorf("node %s: hardware type %s has no inspect interface", t.Node.Label(), t.Hardware.Type)
	}
	return append([]flowStep{validateStep("power", "management", "inspect")}, plain(i.InspectSteps(t.Node))...), nil
}

func deployFlow(_ *Conductor, _ *work.Document, t *driver.Task) ([]flowStep, error) {
	return append([]flowStep{validateStep("power", "management", "boot", "deploy")},
		plain(byPriority(t.Hardware.Deploy().DeploySteps(t.Node)))...), nil
}

// deleteFlow takes the instance off and then cleans, whatever the node says of its
// fields: an operator must be able to get rid of a broken instance.
func deleteFlow(c *Conductor, _ *work.Document, t *driver.Task) ([]flowStep, error) {
	steps := plain(t.Hardware.Deploy().TearDownSteps(t.Node))
	steps = append(steps, flowStep{then: provision.EventClean, clearInstance: true,
		Step: driver.Step{Interface: "conductor", Name: "torn_down", Kind: driver.Repeatable,
			Run: func(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Done(), nil }}})
	return append(steps, c.cleaning(t)...), nil
}

func rescuer(t *driver.Task) (driver.Rescuer, error) {
	r := t.Hardware.Rescue()
	if r == nil {
		return nil, fmt.Errorf("node %s: hardware type %s has no rescue interface", t.Node.Label(), t.Hardware.Type)
	}
	return r, nil
}

func rescueFlow(_ *Conductor, _ *work.Document, t *driver.Task) ([]flowStep, error) {
	r, err := rescuer(t)
	if err != nil {
		return nil, err
	}
	return append([]flowStep{validateStep("power", "management", "rescue")}, plain(r.RescueSteps(t.Node))...), nil
}

func unrescueFlow(_ *Conductor, _ *work.Document, t *driver.Task) ([]flowStep, error) {
	r, err := rescuer(t)
	if err != nil {
		return nil, err
	}
	return append([]flowStep{validateStep("power", "management", "rescue")}, plain(r.UnrescueSteps(t.Node))...), nil
}
