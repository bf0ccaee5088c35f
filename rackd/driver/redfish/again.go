package redfish

import (
	"encoding/json"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// again is what is kept of a node whose BMC knows no boot override for good (driver.Keeper).
type again struct {
	// BootDevice is set once more before each start; empty: none.
	BootDevice string `json:"boot_again,omitempty"`
}

// agains holds it for each node.
type agains struct{ bmc.Keeping[again] }

func newAgains() agains { return agains{bmc.Keeping[again]{Counter: "boot_again_changes"}} }

// set notes which device is to be set again; empty: none.
func (k *agains) set(n *node.Document, device string) {
	k.Change(n, func(a *again) { a.BootDevice = device })
}

// Kept implements driver.Keeper.
func (d *Driver) Kept(n *node.Document) json.RawMessage { return d.again.Kept(n) }
