package ipmi

import (
	"encoding/json"
	"sync"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// always is the boot device that a node's machine has for all starts where its BMC does not remember it (ipmi_force_boot_device).
type always struct {
	// Changes counts them: of two copies, the one with more is the newer.
	Changes int64             `json:"ipmi_boot_changes"`
	Device  driver.BootDevice `json:"ipmi_boot_device,omitempty"`
	// Once: the BMC has been told another device, for the next start.
	Once bool `json:"ipmi_boot_once,omitempty"`
}

// forced holds what this rackd has set. The node's document brings it to the other rackds (driver.Keeper).
type forced struct {
	mu sync.Mutex
	by map[string]always // by node
}

// of returns the newest that is known of a node.
func (f *forced) of(n *node.Document) always {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest(n)
}

// newest is of, with mu held.
func (f *forced) newest(n *node.Document) always {
	a := f.by[n.UUID]
	if told := inDocument(n); told.Changes > a.Changes {
		return told
	}
	return a
}

func inDocument(n *node.Document) (a always) {
	if len(n.Kept) > 0 && json.Unmarshal(n.Kept, &a) != nil {
		return always{}
	}
	return a
}

// set notes a boot device that was set: for all starts, or for the next one only.
func (f *forced) set(n *node.Document, device driver.BootDevice, persistent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.newest(n)
	before := a
	if a.Once = !persistent; persistent {
		a.Device = device
	}
	if a == before {
		return
	}
	a.Changes++
	if f.by == nil {
		f.by = map[string]always{}
	}
	f.by[n.UUID] = a
}

// Kept implements driver.Keeper.
func (d *Driver) Kept(n *node.Document) json.RawMessage {
	a := d.forced.of(n)
	if a.Changes == 0 || a.Changes == inDocument(n).Changes {
		return nil
	}
	raw, err := json.Marshal(a)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return raw
}
