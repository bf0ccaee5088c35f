package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// render makes the node document of a row: secrets are opened with the database's
// key and sealed with the group's.
func render(key *seal.Key, row *store.Snapshot) (*node.Document, error) {
	n := row.Node
	groupKey, err := key.ForGroup(n.ConductorGroup)
	if err != nil {
		return nil, err
	}
	reseal := func(fields map[string]any) (map[string]any, error) {
		if len(fields) == 0 {
			return nil, nil
		}
		open, err := key.OpenFields(n.UUID, fields)
		if err != nil {
			return nil, err
		}
		return groupKey.SealFields(n.UUID, open), nil
	}
	d := &node.Document{UUID: n.UUID, Name: n.Name, Group: n.ConductorGroup, Driver: n.Driver, Generation: n.Generation,
		Revision: n.Revision, Interfaces: n.Interfaces, Properties: n.Properties, InstanceUUID: n.InstanceUUID,
		Traits: n.Traits, State: n.ProvisionState, Maintenance: n.Maintenance, AutomatedClean: n.AutomatedClean,
		DisablePowerOff: n.DisablePowerOff, Retired: n.Retired}
	if d.DriverInfo, err = reseal(n.DriverInfo); err != nil {
		return nil, fmt.Errorf("driver_info: %w", err)
	}
	if d.InstanceInfo, err = reseal(n.InstanceInfo); err != nil {
		return nil, fmt.Errorf("instance_info: %w", err)
	}
	for _, p := range row.Ports {
		d.Ports = append(d.Ports, node.Port{UUID: p.UUID, Address: p.Address, PXEEnabled: p.PXEEnabled})
	}
	return d, nil
}

// putNode writes the node's document unless the site has a newer one.
func (w *writer) putNode(ctx context.Context, t target, row *store.Snapshot) error {
	doc, err := render(w.Key, row)
	if err != nil {
		return err
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	for range attempts {
		var rev uint64
		switch e, err := w.site.Nodes.Get(ctx, t.key()); {
		case errors.Is(err, jetstream.ErrKeyNotFound):
		case err != nil:
			return err
		default:
			var old struct {
				Revision int64 `json:"revision"`
			}
			if json.Unmarshal(e.Value(), &old) == nil && old.Revision >= doc.Revision {
				return nil
			}
			rev = e.Revision()
		}
		if raced, err := put(ctx, w.site.Nodes, t.key(), body, rev); !raced {
			return err
		}
	}
	return errRaced
}

// syncWork makes the WORK key fit the node's open work row, or its absence. Unless
// driveless, work that names a config drive waits for it with errNoDrive: this
// reading of the rows may be ahead of the outbox.
func (w *writer) syncWork(ctx context.Context, t target, row *store.Snapshot, driveless bool) error {
	for range attempts {
		var rev uint64
		var old *work.Document
		switch e, err := w.site.Work.Get(ctx, t.key()); {
		case errors.Is(err, jetstream.ErrKeyNotFound):
		case err != nil:
			return err
		default:
			rev, old = e.Revision(), new(work.Document)
			if err := json.Unmarshal(e.Value(), old); err != nil {
				w.log.Error("unreadable work document is replaced", "key", t.key(), "error", err)
				old = nil
			}
		}
		var raced bool
		var err error
		switch doc, purge := decide(row, old); {
		case doc != nil:
			if doc.Args.ConfigDrive != "" && !driveless {
				if _, err := w.site.Drives.GetInfo(ctx, doc.Args.ConfigDrive); errors.Is(err, jetstream.ErrObjectNotFound) {
					return errNoDrive
				} else if err != nil {
					return err
				}
			}
			var body []byte
			if body, err = json.Marshal(doc); err == nil {
				raced, err = put(ctx, w.site.Work, t.key(), body, rev)
			}
		case purge && rev != 0:
			if err = w.site.Work.Purge(ctx, t.key(), jetstream.LastRevision(rev)); isRace(err) {
				raced, err = true, nil
			}
		}
		if !raced {
			return err
		}
	}
	return errRaced
}

// decide says what the WORK key must become, given the rows and what it holds (nil:
// nothing): a document to write, a purge, or neither.
func decide(row *store.Snapshot, old *work.Document) (doc *work.Document, purge bool) {
	if row.Work == nil {
		// Ended, and central knows it; or overtaken by a request that needed no
		// rack. An open document of the node's own generation is left alone: the
		// rows say that it ended, so this reading of the key is an old one.
		return nil, old == nil || old.Generation < row.Node.Generation || old.Generation == row.Node.Generation && !old.Open()
	}
	fresh := row.Work.Document()
	switch {
	case old == nil:
		return &fresh, false
	case old.ID == fresh.ID || !fresh.Supersedes(old):
		return nil, false
	}
	// The new owner starts from the next epoch, so that whoever runs the old work
	// has lost the node, and may go on with the agent that is there.
	fresh.Epoch = old.Epoch + 1
	fresh.Checkpoint.Agent = old.Checkpoint.Agent
	if fresh.Verb == work.Abort {
		fresh.Args.AbortedStep = old.Checkpoint.Step // for people: what was cut short
	}
	return &fresh, false
}
