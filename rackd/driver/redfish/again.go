package redfish

import (
	"encoding/json"
	"sync"

	"github.com/ironyard/ironyard/protocol/node"
)

// again is what is kept of a node whose BMC knows no boot override for good (driver.Keeper).
type again struct {
	// Changes counts them: of two copies, the one with more is the newer.
	Changes int64 `json:"boot_again_changes"`
	// BootDevice is set once more before each start; empty: none.
	BootDevice string `json:"boot_again,omitempty"`
}

// agains holds what the nodes' documents do not hold yet. Safe for concurrent use.
type agains struct {
	mu   sync.Mutex
	news map[string]again // by node
}

// of is the newest that is known of a node.
func (k *agains) of(n *node.Document) (kept again) {
	if len(n.Kept) > 0 && json.Unmarshal(n.Kept, &kept) != nil {
		kept = again{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	news, ok := k.news[n.UUID]
	switch {
	case !ok:
		return kept
	case news.Changes <= kept.Changes:
		delete(k.news, n.UUID) // the document has it
		return kept
	}
	return news
}

// set notes which device is to be set again; empty: none.
func (k *agains) set(n *node.Document, device string) {
	was := k.of(n)
	if was.BootDevice == device {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.news == nil {
		k.news = map[string]again{}
	}
	k.news[n.UUID] = again{was.Changes + 1, device}
}

// Kept implements driver.Keeper.
func (d *Driver) Kept(n *node.Document) json.RawMessage {
	newest := d.again.of(n)
	d.again.mu.Lock()
	_, news := d.again.news[n.UUID]
	d.again.mu.Unlock()
	if !news {
		return nil
	}
	raw, err := json.Marshal(newest)
	if err != nil {
		panic(err) // a struct of a text and a number
	}
	return raw
}
