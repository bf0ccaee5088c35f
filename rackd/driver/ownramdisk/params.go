package ownramdisk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
)

// ValidateParams refuses parameters for the ramdisk's kernel that are rackd's to write: whom the agent
// calls and believes, and which disks it spares, is not for a node's fields to say, which
// tenants may set. It refuses more of them than the kernel's command line has room for.
func ValidateParams(n *node.Document) error {
	given, isText := n.InstanceInfo[ParamsField].(string)
	if v := n.InstanceInfo[ParamsField]; !isText && v != nil {
		return fmt.Errorf("node %s: instance_info %s is %.60v: give a text: %w", n.Label(), ParamsField, v, driver.ErrInvalid)
	}
	for place, text := range map[string]string{"driver_info": n.DriverString(ParamsField), "instance_info": given} {
		if len(text) > agentapi.MaxOwnParams {
			return fmt.Errorf("node %s: %s %s has %d bytes, and at most %d fit on the kernel's command line beside rackd's own: %w", n.Label(), place, ParamsField, len(text), agentapi.MaxOwnParams, driver.ErrInvalid)
		}
		if part := agentapi.Spoiled(text); part != "" {
			return fmt.Errorf("node %s: %s %s holds %q, which boot loaders read as their own, so that it does not reach the kernel: remove it: %w", n.Label(), place, ParamsField, part, driver.ErrInvalid)
		}
		for p := range strings.FieldsSeq(text) {
			if strings.Count(p, `"`)%2 != 0 {
				return fmt.Errorf("node %s: %s %s: %.60q holds a quote that does not end within the word, and would swallow rackd's own parameters or be cut: give values without spaces: %w", n.Label(), place, ParamsField, p, driver.ErrInvalid)
			}
			if agentapi.Reserved(p) {
				return fmt.Errorf("node %s: %s %s: rackd itself sets %.60q: remove it. For all machines of a rack use rackd's --kernel-params and --agent-api-url: %w", n.Label(), place, ParamsField, p, driver.ErrInvalid)
			}
			if place == "instance_info" && agentapi.Hides(p) {
				return fmt.Errorf("node %s: instance_info %s: %.60q may hide disks or the agent, which is not for an instance to say: remove it, or give it in driver_info: %w", n.Label(), ParamsField, p, driver.ErrInvalid)
			}
		}
	}
	return nil
}

// instanceSays are the states of flows in which the ramdisk serves the instance. In all others, the cleaning after an instance
// first, the instance's fields count for nothing: the rack's copy of the node may be older than the end of the instance.
var instanceSays = []provision.State{provision.Deploying, provision.DeployWait, provision.DeployHold, provision.Rescuing, provision.RescueWait}

// params are the parameters that the instance, where it may, or else the node asks for. The word
// %default% stands for the rackd's, which are there in any case: a ramdisk without them
// has no rackd to call.
func params(n *node.Document) []string {
	if n.State.In(instanceSays) {
		return InstanceParams(n)
	}
	return words(n.DriverString(ParamsField))
}

// InstanceParams are the parameters that the instance, or else the node asks for. They are also those of an instance that is a
// ramdisk itself.
func InstanceParams(n *node.Document) []string {
	if text, _ := n.InstanceInfo[ParamsField].(string); text != "" {
		return words(text)
	}
	return words(n.DriverString(ParamsField))
}

func words(text string) []string {
	return slices.DeleteFunc(strings.Fields(text), func(p string) bool { return p == "%default%" })
}
