// Package nextboot keeps boot devices that a machine can be told only right before it starts, until then.
//
// It owns what driver.Keeper keeps of a node for such drivers. It may import rackd/driver and protocol. Invariants:
//   - Of two copies of what is kept, the one with more changes is the newer: a rackd's own, or that of the node's document.
//   - What the document has is not held here as well.
//
// Everything exported is safe for concurrent use.
package nextboot

import (
	"encoding/json"
	"sync"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Boot is the boot device of a node's next starts, as it is kept.
type Boot struct {
	// Changes counts them.
	Changes int64 `json:"next_boot_changes"`
	// Device is empty where there is none to tell. Once: it is for the next start alone.
	Device driver.BootDevice `json:"next_boot_device,omitempty"`
	Once   bool              `json:"next_boot_once,omitempty"`
}

// Devices holds them by nodes. Its zero value is ready.
type Devices struct {
	mu   sync.Mutex
	news map[string]Boot // by node, what its document may not have yet
	// told has the changes whose device a machine was told, by node. Whether the machine has started is not known.
	told map[string]int64
}

func inDocument(n *node.Document) (b Boot) {
	if len(n.Kept) > 0 && json.Unmarshal(n.Kept, &b) != nil {
		return Boot{}
	}
	return b
}

// Of is the newest that is known of a node.
func (d *Devices) Of(n *node.Document) Boot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newest(n)
}

// newest is Of, with mu held.
func (d *Devices) newest(n *node.Document) Boot {
	b, told := d.news[n.UUID], inDocument(n)
	if told.Changes < b.Changes {
		return b
	}
	delete(d.news, n.UUID)
	return told
}

// Keep notes a device for the next start, or for all; empty: there is none to tell.
func (d *Devices) Keep(n *node.Document, device driver.BootDevice, once bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.newest(n)
	if b.Device == device && b.Once == once {
		return
	}
	if d.news == nil {
		d.news = map[string]Boot{}
	}
	d.news[n.UUID] = Boot{b.Changes + 1, device, once}
}

// Told notes that the machine was told its device, and to start, and that the answer was lost.
func (d *Devices) Told(n *node.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told == nil {
		d.told = map[string]int64{}
	}
	d.told[n.UUID] = d.newest(n).Changes
}

// Runs notes that the machine was found running. If the start whose answer was lost has happened, a device for a single start is
// used up.
func (d *Devices) Runs(n *node.Document) {
	d.mu.Lock()
	changes, lost := d.told[n.UUID]
	delete(d.told, n.UUID)
	b := d.newest(n)
	d.mu.Unlock()
	if lost && b.Once && b.Changes == changes {
		d.Keep(n, "", false)
	}
}

// Kept is driver.Keeper's. What others keep of the node stays.
func (d *Devices) Kept(n *node.Document) json.RawMessage {
	b := d.Of(n)
	if b.Changes == inDocument(n).Changes {
		return nil
	}
	all := map[string]json.RawMessage{}
	if json.Unmarshal(n.Kept, &all) != nil {
		all = map[string]json.RawMessage{}
	}
	for _, own := range []string{"next_boot_changes", "next_boot_device", "next_boot_once"} {
		delete(all, own)
	}
	raw, err := json.Marshal(b)
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	both, marshalErr := json.Marshal(all)
	if err != nil || marshalErr != nil {
		panic("a struct of a text, a number and a truth") // which always marshals
	}
	return both
}
