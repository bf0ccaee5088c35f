package none

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Deploy is the deploy interface "noop", as Ironic has it: of machines that another program installs. It takes each node as it is, and
// touches no machine, so that no ramdisk cleans it either. A node may get it in maintenance, while an instance of another deploy interface
// is there. That one Former takes off the machine; a nil Former takes nothing off.
type Deploy struct {
	Noop
	Former driver.Deploy
}

// InstanceFields is empty: nothing of instance_info is acted on.
func (Deploy) InstanceFields() []string { return nil }

// NeedsNoBoot implements driver.Bootless.
func (Deploy) NeedsNoBoot() {}

// DeploySteps are one that does nothing.
func (Deploy) DeploySteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Repeatable, Apart: true,
		Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			t.Record.Phase("deploy", "the deploy interface noop leaves the machine as it is")
			return driver.Done(), nil
		}}}
}

// TearDownSteps are one that does nothing, or those of Former.
func (d Deploy) TearDownSteps(n *node.Document) []driver.Step {
	if d.Former != nil && ofRackd(n) {
		return d.Former.TearDownSteps(n)
	}
	return []driver.Step{{Interface: "deploy", Name: "tear_down", Kind: driver.Repeatable, Apart: true,
		Run: func(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Done(), nil }}}
}

// ofRackd reports whether a flow of another deploy interface has told the node's machine of something that is the instance's alone: a
// volume, a medium, a URL, files, or secure boot. The boot device by itself may be a request's.
func ofRackd(n *node.Document) bool {
	image, _ := n.InstanceInfo["boot_iso"].(string)
	onMedium := n.BootSet == "cdrom" || n.BootSet == string(driver.BootHTTP)
	return n.BootSet == string(driver.BootISCSI) || onMedium && image != "" || len(n.InstanceFiles) > 0 || n.SecureBootBefore != ""
}
