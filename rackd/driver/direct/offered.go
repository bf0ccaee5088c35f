package direct

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Limits on what an agent may offer: the checkpoint keeps it.
const (
	maxSteps      = 256
	maxStepsBytes = 256 << 10
	maxName       = 100
)

// factOffered, with the flow's name, is the fact that holds the agent's steps.
const factOffered = "agent_steps_"

// offered is a step of the agent's, as far as a conductor needs it.
type offered struct {
	Interface string `json:"interface"`
	Step      string `json:"step"`
	Priority  int    `json:"priority,omitempty"`
	Abortable bool   `json:"abortable,omitempty"`
	// Reboot: the machine is booted into the ramdisk again after the step.
	Reboot bool `json:"reboot_requested,omitempty"`
	// Repeatable: an agent that has started again in the middle of the step may begin it again.
	Repeatable bool                `json:"ironyard_repeatable,omitempty"`
	Takes      map[string]argument `json:"argsinfo,omitempty"`
}

// repeats reports whether an agent that has started again begins the step again. What may be cut short
// at any moment may also begin again. An image is written again also where another agent offers the step and says
// nothing: a flow that goes on behind half an image boots it.
func (o offered) repeats() bool {
	return o.Repeatable || o.Abortable || o.Interface == "deploy" && o.Step == writeImageStep
}

const writeImageStep = "write_image"

// harmless reports whether a step of our agent's may be repeated, whatever the agent says of it: one of
// an earlier version says nothing.
func (o offered) harmless() bool {
	return o.Interface == "deploy" && (o.Step == writeImageStep || strings.HasPrefix(o.Step, "erase_devices"))
}

type argument struct {
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
	// Kind of our agent's; empty: not known.
	Kind agentapi.ArgumentKind `json:"ironyard_kind,omitempty"`
}

// check refuses arguments of another kind than the agent reads.
func (o offered) check(n *node.Document, args map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		text, isText := args[name].(string)
		if kind := o.Takes[name].Kind; !kind.Fits(args[name]) && !(isText && seal.Sealed(text)) {
			return fmt.Errorf("node %s: the argument %s of step %s.%s is no %s: %w", n.Label(), name, o.Interface, o.Step, kind, driver.ErrInvalid)
		}
	}
	return nil
}

// parseSteps reads the agent's steps of f, a list or a list for each of its hardware
// managers, in order of their names. An agent that does not say which it has is an error: a cleaning
// without steps would pass for one that has erased.
func parseSteps(raw json.RawMessage, f driver.Flows) ([]offered, error) {
	if len(raw) > maxStepsBytes {
		return nil, fmt.Errorf("they take %d bytes, more than the %d that a checkpoint holds", len(raw), maxStepsBytes)
	}
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("they cannot be read: %w", err)
	}
	key := f.String() + "_steps"
	list := answer[key]
	if len(list) == 0 || string(list) == "null" {
		return nil, fmt.Errorf("its answer has no %s: look at the agent in the ramdisk", key)
	}
	steps := []offered{}
	if json.Unmarshal(list, &steps) != nil {
		var managers map[string][]offered
		if err := json.Unmarshal(list, &managers); err != nil {
			return nil, fmt.Errorf("they are neither a list nor lists by hardware manager: %w", err)
		}
		if len(managers) == 0 {
			return nil, fmt.Errorf("the %s of its answer name no hardware manager: look at the agent in the ramdisk", key)
		}
		steps = []offered{}
		for manager, of := range managers {
			for _, s := range of {
				s.Repeatable = s.Repeatable || manager == agentapi.StepManager && s.harmless()
				steps = append(steps, s)
			}
		}
	}
	if len(steps) > maxSteps {
		return nil, fmt.Errorf("there are %d of them, more than %d", len(steps), maxSteps)
	}
	for _, s := range steps {
		if !slices.Contains(node.InterfaceKinds, s.Interface) || s.Step == "" || len(s.Step) > maxName {
			return nil, fmt.Errorf("one of them is %.*q of %.*q, which is not an interface", maxName, s.Step, maxName, s.Interface)
		}
	}
	// Two managers may offer one step; the one that goes first is left.
	slices.SortFunc(steps, func(a, b offered) int {
		if c := strings.Compare(a.Interface+"."+a.Step, b.Interface+"."+b.Step); c != 0 {
			return c
		}
		return b.Priority - a.Priority
	})
	return slices.CompactFunc(steps, func(a, b offered) bool { return a.Interface == b.Interface && a.Step == b.Step }), nil
}
