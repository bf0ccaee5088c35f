package ilo

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Steps of Ironic's that are refused by their names, each with its reason. Who asks for one learns why it is not carried out.

const (
	oneButtonErase = "one_button_secure_erase"
	updateBySUM    = "update_firmware_sum"
	flashBySUM     = "flash_firmware_sum"
)

const (
	withoutSUM = "It has the ramdisk's agent run HPE's Smart Update Manager from the image of a Service Pack, and no agent here can. " +
		"Update iLO and BIOS by management.update_firmware"
	withoutEnd = "It ends by resetting the iLO, which forgets its account and its network then, so that no rackd can read back what was erased. " +
		"Erase drives by management.erase_devices, reset the BIOS by management.reset_bios_to_default, and start it in the iLO's web pages to retire a machine"
)

// refusedSteps are those.
func refusedSteps() []driver.Step {
	refused := func(name string, in driver.Flows, why string, takes ...string) driver.Step {
		refuse := func(n *node.Document) error {
			return driver.Refuse("Step '%s' is not executed for %s: %s.", name, n.UUID, why)
		}
		s := driver.Step{Interface: "management", Name: name, In: in, Kind: driver.Repeatable, NoRamdisk: true, Takes: map[string]driver.Argument{},
			Check: func(n *node.Document, _ map[string]any) error { return refuse(n) },
			Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
				return driver.Outcome{}, refuse(t.Node)
			}}
		for _, arg := range takes {
			s.Takes[arg] = driver.Argument{Description: "Not read: the step is refused."}
		}
		return s
	}
	sum := []string{"url", "checksum", "components"}
	return []driver.Step{
		refused(updateBySUM, driver.InClean, withoutSUM, sum...),
		refused(flashBySUM, driver.InDeploy, withoutSUM, sum...),
		refused(oneButtonErase, driver.InClean, withoutEnd),
	}
}
