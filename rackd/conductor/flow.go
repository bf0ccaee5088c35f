package conductor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/plan"
)

// flowStep is a step and the transition its end causes.
type flowStep struct {
	driver.Step
	then          provision.Event // empty: the state stays
	clearInstance bool
	// pure: it looks at documents only and changes nothing, so it begins without a
	// checkpoint.
	pure bool
	// own steps of the conductor are no steps to who looks at the node.
	own bool
	// again tells apart steps of one name.
	again int
}

// id names the step in checkpoints, history and failpoints.
func (s flowStep) id() string {
	if s.again > 0 {
		return fmt.Sprintf("%s.%s (%d)", s.Interface, s.Name, s.again+1)
	}
	return s.Interface + "." + s.Name
}

// flows builds, for each verb, the steps of its work. It is a function of the
// documents alone, so that a successor gets the same steps. The facts of the work may
// add to the steps that follow one which Discovers, and change nothing before them.
var flows = map[work.Verb]func(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error){
	work.Manage:   verifyFlow,
	work.Adopt:    adoptFlow,
	work.Provide:  provideFlow,
	work.Clean:    cleanFlow,
	work.Service:  serviceFlow,
	work.Inspect:  inspectFlow,
	work.Deploy:   deployFlow,
	work.Rebuild:  deployFlow,
	work.Delete:   deleteFlow,
	work.Rescue:   rescueFlow,
	work.Unrescue: unrescueFlow,
	work.Abort:    abortFlow,
	work.Power:    powerFlow,
	work.Adjust:   adjustFlow,
}

func (c *Conductor) flow(d *work.Document, t *driver.Task) ([]flowStep, error) {
	build, ok := flows[d.Verb]
	if !ok {
		return nil, fmt.Errorf("node %s: this rackd does not know how to %q: is it older than central?", t.Node.Label(), d.Verb)
	}
	steps, err := build(c, d, t)
	seen := map[string]int{}
	for i := range steps {
		id := steps[i].id()
		steps[i].again = seen[id]
		seen[id]++
	}
	return steps, err
}

func plain(steps []driver.Step) []flowStep {
	out := make([]flowStep, len(steps))
	for i, s := range steps {
		out[i] = flowStep{Step: s}
	}
	return out
}

// validateStep checks the fields of the kinds of interface that a flow uses.
func validateStep(kinds ...string) flowStep {
	return flowStep{own: true, pure: true, Step: driver.Step{Interface: "conductor", Name: "validate", Kind: driver.Repeatable,
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

// plan is what the named steps of d's flow are made of.
func (c *Conductor) plan(d *work.Document, t *driver.Task) *plan.Request {
	p := &plan.Request{Hardware: t.Hardware, Node: t.Node, Facts: t.Facts, NoRamdisk: d.Args.DisableRamdisk, Own: c.ownStep}
	for _, s := range d.Args.Steps {
		p.Asked = append(p.Asked, driver.AskedStep{Interface: s.Interface, Step: s.Step, Args: s.Args, Priority: s.Priority, OnChildren: s.OnChildren, Children: s.Children})
	}
	return p
}

func verifyFlow(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error) {
	p := c.plan(d, t)
	p.Priorities = c.cfg.VerifyPriorities
	return append(adopted(c), plain(p.Verify())...), nil
}

func adoptFlow(c *Conductor, _ *work.Document, _ *driver.Task) ([]flowStep, error) {
	return adopted(c), nil
}

func adopted(c *Conductor) []flowStep {
	return []flowStep{validateStep("power", "management"), {Step: c.verifyPower(), own: true}, {Step: c.observeHardware(), own: true}}
}

func provideFlow(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error) {
	steps, err := c.cleaning(d, t)
	return append([]flowStep{validateStep("power", "management")}, steps...), err
}

// cleaning is automated cleaning, empty when the node or the rack does without.
func (c *Conductor) cleaning(d *work.Document, t *driver.Task) ([]flowStep, error) {
	wanted := c.cfg.AutomatedClean
	if t.Node.AutomatedClean != nil {
		wanted = *t.Node.AutomatedClean
	}
	if !wanted {
		return nil, nil
	}
	p := c.plan(d, t)
	p.Priorities = c.cfg.CleanPriorities
	steps, err := p.Clean()
	return plain(steps), err
}

func cleanFlow(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error) {
	return c.listedFlow(d, t, driver.InClean)
}

func serviceFlow(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error) {
	return c.listedFlow(d, t, driver.InService)
}

// listedFlow runs the steps that a request lists, in its order.
func (c *Conductor) listedFlow(d *work.Document, t *driver.Task, f driver.Flows) ([]flowStep, error) {
	steps, err := c.plan(d, t).Listed(f)
	return append([]flowStep{validateStep("power", "management")}, plain(steps)...), err
}

func inspectFlow(_ *Conductor, _ *work.Document, t *driver.Task) ([]flowStep, error) {
	i := t.Hardware.Inspect()
	if i == nil {
		return nil, fmt.Errorf("node %s: hardware type %s has no inspect interface", t.Node.Label(), t.Hardware.Type)
	}
	return append([]flowStep{validateStep("power", "management", "inspect")}, plain(i.InspectSteps(t.Node))...), nil
}

func deployFlow(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error) {
	steps, err := c.plan(d, t).Deploy()
	return append([]flowStep{validateStep("power", "management", "boot", "deploy")}, plain(steps)...), err
}

// deleteFlow takes the instance off and then cleans, whatever the node says of its
// fields: an operator must be able to get rid of a broken instance.
func deleteFlow(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error) {
	steps := plain(t.Hardware.Deploy().TearDownSteps(t.Node))
	steps = append(steps, flowStep{then: provision.EventClean, clearInstance: true, own: true,
		Step: driver.Step{Interface: "conductor", Name: "torn_down", Kind: driver.Repeatable,
			Run: func(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Done(), nil }}})
	cleaning, err := c.cleaning(d, t)
	return append(steps, cleaning...), err
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
