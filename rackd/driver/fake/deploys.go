package fake

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// liveDeploy plays the deploy interface "ramdisk": an image is booted, none written.
type liveDeploy struct{ deploy }

// Validate asks for the image, as the real interface does.
func (l liveDeploy) Validate(n *node.Document) error {
	if n.InstanceString("boot_iso") == "" && (n.InstanceString("kernel") == "" || n.InstanceString("ramdisk") == "") {
		return fmt.Errorf("node %s: instance_info has neither boot_iso, the URL of the image that the machine is to run, nor kernel and ramdisk: %w", n.Label(), driver.ErrInvalid)
	}
	return l.deploy.Validate(n)
}

// InstanceFields names what is read of instance_info.
func (liveDeploy) InstanceFields() []string {
	return []string{"boot_iso", "kernel", "ramdisk", "ramdisk_kernel_arguments"}
}

func (l liveDeploy) DeploySteps(n *node.Document) []driver.Step {
	return without(l.deploy.DeploySteps(n), "write_image", "prepare_instance_boot", "tear_down_agent", "boot_instance")
}

// customDeploy plays the deploy interface "custom-agent": the steps of the request do
// the writing.
type customDeploy struct{ deploy }

// InstanceFields names what the real one gives its steps.
func (customDeploy) InstanceFields() []string { return []string{"configdrive"} }

func (c customDeploy) DeploySteps(n *node.Document) []driver.Step {
	return without(c.deploy.DeploySteps(n), "write_image")
}

// Playing plays a deploy interface that writes an image: it asks of a node what the real one does, and writes nothing.
func (f *Fleet) Playing(real driver.Deploy) driver.Interface {
	return imageDeploy{deploy{base{f, "deploy"}}, real}
}

type imageDeploy struct {
	deploy
	real driver.Deploy
}

func (i imageDeploy) Validate(n *node.Document) error {
	return errors.Join(i.real.Validate(n), i.deploy.Validate(n))
}

// InstanceFields are those of the real one.
func (i imageDeploy) InstanceFields() []string {
	if real, is := i.real.(driver.InstanceReader); is {
		return real.InstanceFields()
	}
	return nil
}

func (i imageDeploy) ValidateWith(h *driver.Hardware, n *node.Document) error {
	if real, is := i.real.(driver.Paired); is {
		return real.ValidateWith(h, n)
	}
	return i.deploy.ValidateWith(h, n)
}

// imageDeploys are the deploy interfaces of Ironic's fake-hardware that write an image and that no other hardware type here
// has. Clients' suites ask for them by name.
var imageDeploys = []string{"anaconda", "ansible", "autodetect", "bootc"}

// anyImage plays one of imageDeploys.
type anyImage struct{ deploy }

// Validate asks for the image and no more: what else each wants is not known here.
func (a anyImage) Validate(n *node.Document) error {
	if source, _ := n.InstanceInfo["image_source"].(string); source == "" {
		return fmt.Errorf("node %s: instance_info has no image_source: %w", n.Label(), driver.ErrInvalid)
	}
	return a.deploy.Validate(n)
}

func without(steps []driver.Step, names ...string) []driver.Step {
	return slices.DeleteFunc(steps, func(s driver.Step) bool { return slices.Contains(names, s.Name) })
}
