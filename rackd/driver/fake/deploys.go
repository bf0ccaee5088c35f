package fake

import (
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// liveDeploy plays the deploy interface "ramdisk": an image is booted, none written.
type liveDeploy struct{ deploy }

// Validate asks for the image, as the real interface does.
func (l liveDeploy) Validate(n *node.Document) error {
	if url, _ := n.InstanceInfo["boot_iso"].(string); url == "" {
		return fmt.Errorf("node %s: instance_info has no boot_iso, the URL of the image that the machine is to run: %w", n.Label(), driver.ErrInvalid)
	}
	return l.deploy.Validate(n)
}

func (l liveDeploy) DeploySteps(n *node.Document) []driver.Step {
	return without(l.deploy.DeploySteps(n), "write_image", "prepare_instance_boot", "tear_down_agent", "boot_instance")
}

// customDeploy plays the deploy interface "custom-agent": the steps of the request do
// the writing.
type customDeploy struct{ deploy }

func (c customDeploy) DeploySteps(n *node.Document) []driver.Step {
	return without(c.deploy.DeploySteps(n), "write_image")
}

func without(steps []driver.Step, names ...string) []driver.Step {
	return slices.DeleteFunc(steps, func(s driver.Step) bool { return slices.Contains(names, s.Name) })
}
