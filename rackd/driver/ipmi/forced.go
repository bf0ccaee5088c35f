package ipmi

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// always is the boot device that a node's machine has for all starts where its BMC does not remember it (ipmi_force_boot_device).
type always struct {
	Device driver.BootDevice `json:"ipmi_boot_device,omitempty"`
	// Once: the BMC has been told another device, for the next start.
	Once bool `json:"ipmi_boot_once,omitempty"`
	// Next is set before the next start: the BMC was told while the machine ran, and shows what that was started with. Once says for how long.
	Next driver.BootDevice `json:"ipmi_boot_next,omitempty"`
}

// before is the device to set before a start; empty: the BMC has it.
func (a always) before() driver.BootDevice {
	if a.Next != "" || a.Once {
		return a.Next
	}
	return a.Device
}

// forced holds it for each node.
type forced struct {
	bmc.Keeping[always]

	mu sync.Mutex
	// doubted are the nodes whose machine may have used up the device for one start: the answer to the order to start was lost.
	doubted map[string]bool
}

// set notes a boot device that was set: for all starts, or for the next one only.
func (f *forced) set(n *node.Document, device driver.BootDevice, persistent bool) {
	f.note(n, device, persistent, "")
}

// later notes one that is to be set before the machine's next start.
func (f *forced) later(n *node.Document, device driver.BootDevice, persistent bool) {
	f.note(n, device, persistent, device)
}

func (f *forced) note(n *node.Document, device driver.BootDevice, persistent bool, next driver.BootDevice) {
	f.doubt(n, false)
	f.Change(n, func(a *always) {
		a.Next = next
		if a.Once = !persistent; persistent {
			a.Device = device
		}
	})
}

// started takes in what became of the order to start the machine. An order that was taken uses up a device for one start, and no
// other does.
func (f *forced) started(n *node.Document, err error) {
	switch lost, silent := errors.AsType[*bmc.Lost](err); {
	case err == nil:
		f.used(n)
	case silent && lost.Unknown:
		f.doubt(n, true)
	default:
		if refused, is := errors.AsType[*bmc.Failure](err); is && refused.Class == bmc.Unknown {
			f.doubt(n, true)
		}
	}
}

// seen takes in that the machine is on: an order that may have started it has.
func (f *forced) seen(n *node.Document) {
	f.mu.Lock()
	doubted := f.doubted[n.UUID]
	f.mu.Unlock()
	if doubted {
		f.used(n)
	}
}

func (f *forced) used(n *node.Document) {
	f.doubt(n, false)
	f.Change(n, func(a *always) { a.Once, a.Next = false, "" })
}

func (f *forced) doubt(n *node.Document, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !is {
		delete(f.doubted, n.UUID)
		return
	}
	if f.doubted == nil {
		f.doubted = map[string]bool{}
	}
	f.doubted[n.UUID] = true
}

// Kept implements driver.Keeper.
func (d *Driver) Kept(n *node.Document) json.RawMessage { return d.forced.Kept(n) }
