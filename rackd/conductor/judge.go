package conductor

import (
	"encoding/json"
	"fmt"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// judge says what speaks against the node's interfaces and, where central is about to accept a
// flow, against its steps. Steps that only the ramdisk's agent may have are judged once it is asked.
func (c *Conductor) judge(q ask.Request, n *node.Document, hw *driver.Hardware) (map[string]ask.Validation, error) {
	found := validate(hw, n)
	if len(q.Args) == 0 {
		return found, nil
	}
	var f ask.Flow
	if err := json.Unmarshal(q.Args, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	d := &work.Document{Node: n.UUID, Verb: f.Verb, Args: work.Args{Steps: f.Steps, DisableRamdisk: f.DisableRamdisk}}
	t := &driver.Task{Node: n, Hardware: hw, Facts: map[string]string{}}
	good, reason := true, ""
	steps, err := c.flow(d, t)
	if err == nil {
		err = bootable(t, steps)
	}
	if err != nil {
		good, reason = false, err.Error()
	}
	found[ask.Steps] = ask.Validation{Result: &good, Reason: reason}
	return found, nil
}

// bootable refuses a flow that boots the ramdisk on a node whose boot interface cannot.
func bootable(t *driver.Task, steps []flowStep) error {
	for _, s := range steps {
		if s.Boots {
			return validFields(t, "boot")
		}
	}
	return nil
}
