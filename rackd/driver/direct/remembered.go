package direct

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/release"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// remembered is what a node keeps of its agent's steps. It counts for the ramdisk that has told them.
type remembered struct {
	// Release is that of the rackd: an upgrade may bring another ramdisk.
	Release string `json:"release"`
	// Ramdisk is a digest of the URLs that driver_info names, which may hold passwords; empty: the rack's own.
	Ramdisk string `json:"ramdisk,omitempty"`
	// Steps are the names, as interface.step, by the flow.
	Steps map[string][]string `json:"steps"`
}

// maxRemembered bounds what a node keeps, in bytes: each node document carries it.
const maxRemembered = 4 << 10

func ramdiskOf(n *node.Document) remembered {
	r := remembered{Release: release.Version, Steps: map[string][]string{}}
	if kernel, ramdisk := n.DriverString(ownramdisk.KernelField), n.DriverString(ownramdisk.RamdiskField); kernel != "" || ramdisk != "" {
		sum := sha256.Sum256([]byte(kernel + "\x00" + ramdisk))
		r.Ramdisk = hex.EncodeToString(sum[:8])
	}
	return r
}

// recall returns what n keeps of the ramdisk that it would boot now; false: nothing.
func recall(n *node.Document) (kept remembered, ok bool) {
	now := ramdiskOf(n)
	if len(n.AgentSteps) == 0 || json.Unmarshal(n.AgentSteps, &kept) != nil {
		return now, false
	}
	return kept, kept.Release == now.Release && kept.Ramdisk == now.Ramdisk
}

// remember leaves in the facts what the node is to keep of the agent's steps of f. It is for flows that take an instance down.
func remember(t *driver.Task, f driver.Flows, steps []offered) {
	if f != driver.InDeploy && f != driver.InService {
		return
	}
	kept, ok := recall(t.Node)
	if !ok || kept.Steps == nil {
		kept = ramdiskOf(t.Node)
	}
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Interface + "." + s.Step
	}
	kept.Steps[f.String()] = names
	raw, err := json.Marshal(kept)
	if err != nil || len(raw) > maxRemembered {
		raw = []byte("null") // what was kept before is of another ramdisk
	}
	t.Facts[driver.FactAgentSteps] = string(raw)
}

// Remembered returns what the node keeps of the steps of its ramdisk's agent.
func (i Interface) Remembered(n *node.Document, f driver.Flows) (names []string, known bool) {
	kept, ok := recall(n)
	if !ok {
		return nil, false
	}
	names, known = kept.Steps[f.String()]
	return names, known
}
