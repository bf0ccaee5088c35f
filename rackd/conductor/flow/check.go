package flow

import (
	"maps"
	"slices"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/plan"
)

// CheckFlow says what speaks against the steps of a flow that central is about to accept. Steps that only the
// ramdisk's agent may have are looked at where they would take an instance down, and by what the agent has told before.
func (c *Catalog) CheckFlow(f ask.Flow, n *node.Document, hw *driver.Hardware) error {
	if !f.Whole {
		f.Steps = withheld(f.Steps)
	}
	d := &work.Document{Node: n.UUID, Verb: f.Verb, Args: work.Args{Steps: f.Steps, DisableRamdisk: f.DisableRamdisk}}
	t := &driver.Task{Node: n, Hardware: hw, Facts: map[string]string{}}
	steps, err := c.Steps(d, t)
	if err != nil {
		return err
	}
	return Bootable(t, steps)
}

// withheld returns steps of a central of before, which has null for each argument that it does not tell.
func withheld(steps []work.Step) []work.Step {
	out := slices.Clone(steps)
	for i := range out {
		out[i].Args = maps.Clone(out[i].Args)
		for name, v := range out[i].Args {
			if v == nil {
				out[i].Args[name] = plan.Withheld
			}
		}
	}
	return out
}

// CheckChange says what speaks against a change of the machine. It asks the machine nothing.
func (c *Catalog) CheckChange(ch *work.Change, n *node.Document, hw *driver.Hardware) error {
	_, err := c.adjustment(nil, ch, n, hw)
	return err
}

// Bootable refuses a flow that boots the ramdisk on a node whose boot interface cannot. What comes behind a step that moves the
// state is judged once that has ended: an undeploy takes the instance off first, whatever may become of the cleaning.
func Bootable(t *driver.Task, steps []Step) error {
	for _, s := range steps {
		switch {
		case s.Boots:
			if _, has := t.Hardware.Kinds()["boot"]; !has {
				return t.Hardware.Validate("boot", t.Node)
			}
			return validFields(t, "boot")
		case s.Then != "":
			return nil
		}
	}
	return nil
}
