package direct

import (
	"context"
	"errors"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
)

// Custom is the deploy interface "custom-agent": the agent is brought up and taken down
// as in a direct deploy, and what is written to the machine is up to the deploy steps
// that the request names. Immutable, safe for concurrent use.
type Custom struct{ Interface }

// InstanceFields names what the steps get that no field of their own has, and what is refused. An image is up to them: nothing else of
// instance_info is read here.
func (Custom) InstanceFields() []string { return []string{fieldDrive, instancefiles.ISO} }

// Validate accepts every node: an image is up to the steps.
func (Custom) Validate(*node.Document) error { return nil }

// Adopts implements driver.Adopter: what boots is up to the steps.
func (Custom) Adopts(*node.Document) bool { return false }

// ValidateWith checks what the instance asks for besides. Ironic's boot interfaces boot the image of a CD for the deploy interface
// ramdisk alone, and so do those here.
func (Custom) ValidateWith(h *driver.Hardware, n *node.Document) error {
	return errors.Join(driver.ValidateInstance(h, n), refuseISO(n))
}

// DeploySteps are those of a direct deploy that concern no image.
func (c Custom) DeploySteps(n *node.Document) (steps []driver.Step) {
	for _, s := range c.Interface.DeploySteps(n) {
		switch s.Name {
		case "fetch_image", giveFiles, "write_image":
		case "prepare_instance_boot":
			// Boot entries are the steps' own, like what they point to.
			s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				return driver.Done(), prepareInstance(ctx, t)
			}
			steps = append(steps, s)
		default:
			steps = append(steps, s)
		}
	}
	return steps
}
