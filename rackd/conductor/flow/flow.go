package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/plan"
)

// Step is a step of a flow and the transition that its end causes.
type Step struct {
	driver.Step
	// Then is the event of the state machine with which the step ends. Empty: the state stays.
	Then provision.Event
	// ClearInstance says that the end of the step takes the instance off the node.
	ClearInstance bool
	// Pure steps look at documents only and change nothing, so they begin without a checkpoint.
	Pure bool
	// Own steps are the conductor's: the API does not show them.
	Own bool
	// Off says that the machine is off when the step has ended. Resets says that the step resets the machine.
	Off, Resets bool
	// Doubt is what a successor runs in place of a step that is Neither, and of which it does not know how far it came. nil: the flow fails.
	Doubt func(ctx context.Context, t *driver.Task) (driver.Outcome, error)
	// again tells apart steps of one name.
	again int
}

// ID names the step in checkpoints, history and failpoints.
func (s Step) ID() string {
	if s.again > 0 {
		return fmt.Sprintf("%s.%s (%d)", s.Interface, s.Name, s.again+1)
	}
	return s.Interface + "." + s.Name
}

// Pauses reports whether s is one of the conductor's steps that send nothing: a hold or a wait.
func (s Step) Pauses() bool { return s.Name == "hold" || s.Name == "wait" }

// flow is what the steps of a verb's work are made of.
type flow struct {
	// frame are the steps that do not depend on flags: the conductor's own, and those that
	// interfaces contribute without a name.
	frame func(c *Catalog, d *work.Document, t *driver.Task) ([]Step, error)
	// named are the steps with names, which come behind the frame; nil: there are none.
	named func(c *Catalog, d *work.Document, t *driver.Task) ([]driver.Step, error)
	// in is the flow in which they have their names.
	in driver.Flows
}

// flows are the flows of all verbs. Each list is made once and kept in the checkpoint
// (fixed), so that a successor runs the same one.
var flows = map[work.Verb]flow{
	work.Manage:   {frame: verified, named: verifySteps, in: driver.InVerify},
	work.Adopt:    {frame: adoptFlow},
	work.Provide:  {frame: validated("power", "management"), named: cleaningSteps, in: driver.InClean},
	work.Clean:    {frame: validated("power", "management"), named: listedSteps(driver.InClean), in: driver.InClean},
	work.Service:  {frame: validated("power", "management"), named: serviceSteps, in: driver.InService},
	work.Inspect:  {frame: inspectFlow},
	work.Deploy:   {frame: validated("power", "management", "boot", "deploy", "storage"), named: deploySteps, in: driver.InDeploy},
	work.Rebuild:  {frame: validated("power", "management", "boot", "deploy", "storage"), named: deploySteps, in: driver.InDeploy},
	work.Delete:   {frame: deleteFlow, named: cleaningSteps, in: driver.InClean},
	work.Rescue:   {frame: rescueFlow},
	work.Unrescue: {frame: unrescueFlow},
	work.Abort:    {frame: abortFlow},
	work.Power:    {frame: powerFlow},
	work.Adjust:   {frame: adjustFlow},
}

// flowOf returns the flow of a verb.
func flowOf(v work.Verb, t *driver.Task) (flow, error) {
	f, ok := flows[v]
	if !ok {
		return f, fmt.Errorf("node %s: this rackd does not know how to %q: is it older than central?", t.Node.Label(), v)
	}
	return f, nil
}

// Steps makes the list of the steps of d's work.
func (c *Catalog) Steps(d *work.Document, t *driver.Task) ([]Step, error) {
	f, err := flowOf(d.Verb, t)
	if err != nil {
		return nil, err
	}
	steps, err := c.frame(f, d, t)
	if err == nil && f.named != nil {
		var named []driver.Step
		named, err = f.named(c, d, t)
		steps = append(steps, plain(named)...)
	}
	return numbered(steps), err
}

// frame are the steps of f's frame, behind the one that waits for what a flow before has left to the BMC.
func (c *Catalog) frame(f flow, d *work.Document, t *driver.Task) ([]Step, error) {
	steps, err := f.frame(c, d, t)
	return append(c.awaitBMC(d), steps...), err
}

// numbered tells apart steps of one name.
func numbered(steps []Step) []Step {
	seen := map[string]int{}
	for i := range steps {
		steps[i].again = 0
		id := steps[i].ID()
		steps[i].again = seen[id]
		seen[id]++
	}
	return steps
}

func plain(steps []driver.Step) []Step {
	out := make([]Step, len(steps))
	for i, s := range steps {
		out[i] = Step{Step: s}
	}
	return out
}

// validateStep checks the fields of the kinds of interface that a flow uses. What is kept for clients and has no effect is a line
// of the node's history.
func validateStep(kinds ...string) Step {
	return Step{Own: true, Pure: true, Step: driver.Step{Interface: "conductor", Name: "validate", Kind: driver.Repeatable,
		Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			if err := validFields(t, kinds...); err != nil {
				return driver.Outcome{}, err
			}
			unread := t.Hardware.Unread(t.Node)
			for _, kind := range kinds {
				if unread[kind] != "" {
					t.Record.Phase(kind+" fields", unread[kind])
				}
			}
			return driver.Done(), nil
		}}}
}

// validFields says which interface of the kinds refuses the node's fields.
func validFields(t *driver.Task, kinds ...string) error {
	impls := t.Hardware.Kinds()
	for _, kind := range slices.Sorted(maps.Keys(impls)) {
		if !slices.Contains(kinds, kind) {
			continue
		}
		if err := t.Hardware.Validate(kind, t.Node); err != nil {
			return fmt.Errorf("node %s: the %s interface %q refuses the node's fields: %w", t.Node.Label(), kind, impls[kind].Name, driver.Unnamed(t.Node, err))
		}
	}
	return nil
}

// validated is the frame of a flow that looks at the fields of the kinds and nothing else.
func validated(kinds ...string) func(*Catalog, *work.Document, *driver.Task) ([]Step, error) {
	return func(*Catalog, *work.Document, *driver.Task) ([]Step, error) {
		return []Step{validateStep(kinds...)}, nil
	}
}

// plan is what the named steps of d's flow are made of.
func (c *Catalog) plan(d *work.Document, t *driver.Task) *plan.Request {
	p := &plan.Request{Hardware: t.Hardware, Node: t.Node, Facts: t.Facts, NoRamdisk: d.Args.DisableRamdisk, Own: c.ownStep,
		Instance: d.Verb == work.Rebuild || d.Verb == work.Service}
	for i, s := range d.Args.Steps {
		p.Asked = append(p.Asked, driver.AskedStep{Interface: s.Interface, Step: s.Step, Args: s.Args, Priority: s.Priority, OnChildren: s.OnChildren, Children: s.Children, Place: i + 1})
	}
	// A list that is made now, and a flow of another kind that goes on with these facts, are not bound by them.
	if names, kept := t.Facts[factDeployNames]; kept && d.Checkpoint.Plan != nil && deploys(d) {
		p.Had = strings.Fields(names)
	}
	return p
}

func verified(c *Catalog, _ *work.Document, _ *driver.Task) ([]Step, error) {
	return []Step{validateStep("power", "management"), {Step: c.verifyPower(), Own: true}, {Step: c.observeHardware(), Own: true}}, nil
}

func verifySteps(c *Catalog, d *work.Document, t *driver.Task) ([]driver.Step, error) {
	p := c.plan(d, t)
	p.Priorities = c.cfg.VerifyPriorities
	return p.Verify(), nil
}

// cleaningSteps are those of automated cleaning, empty when the node or the rack does without.
func cleaningSteps(c *Catalog, d *work.Document, t *driver.Task) ([]driver.Step, error) {
	wanted := c.cfg.AutomatedClean
	if t.Node.AutomatedClean != nil {
		wanted = *t.Node.AutomatedClean
	}
	if d.Checkpoint.Plan != nil { // it grows: who made the list has decided that
		wanted = true
	}
	if !wanted {
		return nil, nil
	}
	p := c.plan(d, t)
	p.Behind = behind(d)
	var err error
	if p.Priorities, err = c.cleanPriorities(t); err != nil {
		return nil, err
	}
	return p.Clean()
}

// listedSteps are those that a request lists, in its order.
func listedSteps(f driver.Flows) func(*Catalog, *work.Document, *driver.Task) ([]driver.Step, error) {
	return func(c *Catalog, d *work.Document, t *driver.Task) ([]driver.Step, error) {
		if err := waits(t, d.Args.Steps); err != nil {
			return nil, err
		}
		p := c.plan(d, t)
		p.Behind = behind(d)
		for _, a := range p.Asked {
			if err := c.judgeChildren(f, t.Node, a); err != nil {
				return nil, err
			}
		}
		return p.Listed(f)
	}
}

// serviceSteps are the listed ones. A machine that a service before has left in the ramdisk is brought back into its instance at the
// end, also where no step needs the ramdisk.
func serviceSteps(c *Catalog, d *work.Document, t *driver.Task) ([]driver.Step, error) {
	steps, err := listedSteps(driver.InService)(c, d, t)
	if err == nil && d.Args.InRamdisk && !slices.ContainsFunc(steps, func(s driver.Step) bool { return s.Boots }) {
		steps = append(steps, DownFromService(t)...)
	}
	return steps, err
}

func deploySteps(c *Catalog, d *work.Document, t *driver.Task) ([]driver.Step, error) {
	if err := waits(t, d.Args.Steps); err != nil {
		return nil, err
	}
	return c.plan(d, t).Deploy()
}

func inspectFlow(_ *Catalog, _ *work.Document, t *driver.Task) ([]Step, error) {
	i := t.Hardware.Inspect()
	if i == nil {
		return nil, fmt.Errorf("node %s: hardware type %s has no inspect interface", t.Node.Label(), t.Hardware.Type)
	}
	return append([]Step{validateStep("power", "management", "inspect")}, abortable(i.InspectSteps(t.Node))...), nil
}

// abortable are the steps of a flow that leaves no disk and no firmware half written: as in
// Ironic, an abort ends it wherever it waits.
func abortable(steps []driver.Step) []Step {
	out := plain(steps)
	for i := range out {
		out[i].Abortable = true
	}
	return out
}

// deleteFlow takes the instance off before the node is cleaned, whatever the node says of its
// fields: an operator must be able to get rid of a broken instance.
func deleteFlow(_ *Catalog, _ *work.Document, t *driver.Task) ([]Step, error) {
	steps := plain(t.Hardware.Deploy().TearDownSteps(t.Node))
	return append(steps, Step{Then: provision.EventClean, ClearInstance: true, Own: true,
		Step: driver.Step{Interface: "conductor", Name: "torn_down", Kind: driver.Repeatable,
			Run: func(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Done(), nil }}}), nil
}

func rescuer(t *driver.Task) (driver.Rescuer, error) {
	r := t.Hardware.Rescue()
	if r == nil {
		return nil, fmt.Errorf("node %s: hardware type %s has no rescue interface", t.Node.Label(), t.Hardware.Type)
	}
	return r, nil
}

func rescueFlow(_ *Catalog, _ *work.Document, t *driver.Task) ([]Step, error) {
	r, err := rescuer(t)
	if err != nil {
		return nil, err
	}
	return append([]Step{validateStep("power", "management", "rescue")}, abortable(r.RescueSteps(t.Node))...), nil
}

func unrescueFlow(_ *Catalog, _ *work.Document, t *driver.Task) ([]Step, error) {
	r, err := rescuer(t)
	if err != nil {
		return nil, err
	}
	// Not the rescue interface, which asks for the password: that went with the request.
	return append([]Step{validateStep("power", "management")}, plain(r.UnrescueSteps(t.Node))...), nil
}

// MayPass reports whether a step that failed with err may succeed when it is run again.
func MayPass(err error) bool {
	return errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrUnknown)
}

// WaitsIn are the states in which flows wait.
var WaitsIn = map[work.Verb]provision.State{work.Provide: provision.CleanWait, work.Clean: provision.CleanWait, work.Delete: provision.CleanWait,
	work.Deploy: provision.DeployWait, work.Rebuild: provision.DeployWait, work.Service: provision.ServiceWait,
	work.Inspect: provision.InspectWait, work.Rescue: provision.RescueWait}
