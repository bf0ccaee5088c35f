package direct

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/release"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// remembered is what a node keeps of its agent's steps. It counts for the ramdisk that has told them.
type remembered struct {
	// Release is that of the rackd: an upgrade may bring another ramdisk.
	Release string `json:"release"`
	// Ramdisk is a digest of what decides which ramdisk the node boots, and how. URLs among that may hold passwords.
	Ramdisk string `json:"ramdisk"`
	// Steps are the names, as interface.step, by the flow.
	Steps map[string][]string `json:"steps"`
}

// maxRemembered bounds what a node keeps, in bytes: each node document carries it.
const maxRemembered = 4 << 10

// ramdiskOf is what is kept of the ramdisk that n would boot now, still without steps.
func (i Interface) ramdiskOf(n *node.Document) remembered {
	class, arch := n.ResourceClass, n.Properties["cpu_arch"]
	of := []any{n.Interface("boot"), n.DriverString(ownramdisk.KernelField), n.DriverString(ownramdisk.RamdiskField), n.DriverString(ownramdisk.ImageField),
		n.DriverString(ownramdisk.ParamsField), class, arch}
	if i.set.Ramdisks != nil {
		of = append(of, i.set.Ramdisks.Identity())
	}
	sum := sha256.New()
	for _, part := range of {
		fmt.Fprintf(sum, "%q ", fmt.Sprint(part))
	}
	return remembered{Release: release.Version, Ramdisk: hex.EncodeToString(sum.Sum(nil)[:8]), Steps: map[string][]string{}}
}

// recall returns what n keeps of the ramdisk that it would boot now; false: nothing.
func (i Interface) recall(n *node.Document) (kept remembered, ok bool) {
	now := i.ramdiskOf(n)
	if len(n.AgentSteps) == 0 || json.Unmarshal(n.AgentSteps, &kept) != nil {
		return now, false
	}
	return kept, kept.Release == now.Release && kept.Ramdisk == now.Ramdisk
}

// remember leaves in the facts what the node is to keep of the agent's steps of f. It is for flows that take an instance down.
func (i Interface) remember(t *driver.Task, f driver.Flows, steps []offered) {
	if f != driver.InDeploy && f != driver.InService {
		return
	}
	kept, ok := i.recall(t.Node)
	if !ok || kept.Steps == nil {
		kept = i.ramdiskOf(t.Node)
	}
	names := make([]string, len(steps))
	for at, s := range steps {
		names[at] = s.Interface + "." + s.Step
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
	kept, ok := i.recall(n)
	if !ok {
		return nil, false
	}
	names, known = kept.Steps[f.String()]
	return names, known
}
