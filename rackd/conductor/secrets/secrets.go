// Package secrets opens what central sealed for the nodes and the works of a rackd.
//
// It may import protocol, and rackd/driver for its errors. Invariants:
//   - Only a work document that central made has its secrets opened, and none that is older than the node's own document.
//   - An agent in a checkpoint counts only if a rackd of the group wrote it there.
package secrets

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Documents is the rack's memory (rackd/view).
type Documents interface {
	Node(id string) *node.Document
}

// Keys are those of the conductor groups that this rackd may serve (seal.Keyring).
type Keys interface {
	// Of returns nil for a group whose key this rackd does not have.
	Of(group string) *seal.Key
}

// Metrics counts what was not made by central. Safe for concurrent use.
type Metrics interface {
	// Forged counts a document of that bucket.
	Forged(bucket string)
}

// Opener opens secrets. Its fields do not change; it is safe for concurrent use.
type Opener struct {
	Documents Documents    // to compare a work's document with its node's
	Keys      Keys         // of the groups
	Metrics   Metrics      // of forged documents
	Log       *slog.Logger // of forged documents, with what to look at
}

// errUnsigned means that a work document is not one that central made.
var errUnsigned = errors.New("the work's authentication code is wrong: a party without the group's key wrote the work or changed it. Check which parties may write to the site's bus")

// Unseal opens what central sealed for a piece of work. The work's id in the label counts only in a
// document that central made and that is no older than what the node's own document says: else a
// server of the bus could have the secrets of an earlier work opened by naming that one.
func (o *Opener) Unseal(d *work.Document, label seal.Label, sealed string) (string, error) {
	key, err := o.KeyFor(d)
	if err != nil {
		return "", err
	}
	return key.Open(label, sealed)
}

// KeyFor returns the key that opens what central sealed for a piece of work.
func (o *Opener) KeyFor(d *work.Document) (*seal.Key, error) {
	n := o.Documents.Node(d.Node)
	if n == nil {
		return nil, fmt.Errorf("this rackd no longer knows node %s", d.Node)
	}
	key := o.Keys.Of(n.Group)
	if key == nil {
		return nil, fmt.Errorf("this rackd has no key of conductor group %q", n.Group)
	}
	if !d.Signed(key) {
		o.Log.Error("a work document does not come from central: rackd does not open its secrets", "node", d.Node, "work", d.ID, "continues", d.Args.Continues)
		o.Metrics.Forged(bus.WorkBucket)
		return nil, errUnsigned
	}
	if d.Generation < n.Generation {
		// The document that takes this one's place is on its way.
		return nil, fmt.Errorf("%w: work %s has generation %d, and the node has since accepted generation %d", driver.ErrAwaited, d.ID, d.Generation, n.Generation)
	}
	return key, nil
}

// Pinned reports whether a rackd of the group wrote the agent into the checkpoint. One that is not pinned is forgotten: the
// machine's own agent has the token of the boot, and its next heartbeat pins it again.
func (o *Opener) Pinned(n *node.Document, d *work.Document) bool {
	key := o.Keys.Of(n.Group)
	if key == nil || d.AgentSigned(key) {
		return true
	}
	o.Log.Error("rackd does not call the agent that a work document names, because its authentication code is wrong. A party without the group's key wrote it, or a rackd of an older version; "+
		"rackd accepts the machine's own agent again when it calls", "node", d.Node, "work", d.ID, "agent", d.Checkpoint.Agent.URL)
	o.Metrics.Forged(bus.WorkBucket)
	return false
}

// Open returns a copy of n with its secrets opened.
func (o *Opener) Open(n *node.Document) (*node.Document, error) {
	copied := *n
	key := o.Keys.Of(n.Group)
	if key == nil {
		return &copied, fmt.Errorf("this rackd has no key of conductor group %q", n.Group)
	}
	var err error
	if copied.DriverInfo, err = key.OpenFields(seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, n.DriverInfo); err != nil {
		return &copied, fmt.Errorf("driver_info: %w", err)
	}
	if copied.InstanceInfo, err = key.OpenFields(seal.Label{Kind: seal.InstanceInfo, Of: n.UUID}, n.InstanceInfo); err != nil {
		return &copied, fmt.Errorf("instance_info: %w", err)
	}
	copied.Targets = slices.Clone(n.Targets)
	for i := range copied.Targets {
		t := &copied.Targets[i]
		if t.Properties, err = key.OpenFields(seal.Label{Kind: seal.Volume, Of: t.UUID}, t.Properties); err != nil {
			return &copied, fmt.Errorf("properties of volume target %s: %w", t.UUID, err)
		}
	}
	return &copied, nil
}
