package answer

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// judge says what speaks against the node's interfaces and, where central is about to accept a
// flow, against its steps. Steps that only the ramdisk's agent may have are judged once it is asked.
func (d *Desk) judge(q ask.Request, n *node.Document, hw *driver.Hardware) (map[string]ask.Validation, error) {
	if len(q.Args) == 0 {
		return validate(hw, n), nil
	}
	var f ask.Flow
	if err := json.Unmarshal(q.Args, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	found := validate(hw, withPassword(n, f))
	good, reason := true, ""
	if err := d.cfg.Conductor.CheckFlow(f, n, hw); err != nil {
		good, reason = false, err.Error()
	}
	found[ask.Steps] = ask.Validation{Result: &good, Reason: reason}
	return found, nil
}

// validate asks each interface of the node what it says of the node's fields.
func validate(hw *driver.Hardware, n *node.Document) map[string]ask.Validation {
	out := map[string]ask.Validation{}
	impls, unread := hw.Kinds(), hw.Unread(n)
	for _, kind := range node.InterfaceKinds {
		if _, ok := impls[kind]; !ok {
			out[kind] = ask.Validation{Reason: "not supported"}
			continue
		}
		good, reason := true, unread[kind]
		if err := hw.Validate(kind, n); err != nil {
			good, reason = false, err.Error()
		}
		out[kind] = ask.Validation{Result: &good, Reason: reason}
	}
	return out
}

// withPassword is the node as a rescue finds it: with a password, which a rackd that only judges is not told.
func withPassword(n *node.Document, f ask.Flow) *node.Document {
	if !f.RescuePassword {
		return n
	}
	with := *n
	with.InstanceInfo = maps.Clone(n.InstanceInfo)
	if with.InstanceInfo == nil {
		with.InstanceInfo = map[string]any{}
	}
	with.InstanceInfo["rescue_password"] = "(comes with the request)"
	return &with
}
