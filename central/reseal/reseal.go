// Package reseal brings everything that is sealed in the database under the newest
// generation of the fleet's key, and has the relay publish the nodes anew, sealed for
// their racks in the same way.
//
// It may import central/store and protocol. Invariant: each row is changed in a
// transaction of its own, from one that opens to one that opens; so it may be
// interrupted, run again, and run while central works.
package reseal

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Done is what All did.
type Done struct {
	Nodes, Secrets int // sealed anew
	Current        int // nodes that needed nothing
}

// page is how many nodes are looked at in one statement.
const page = 256

// All seals anew what is not sealed under the newest generation of key. A row that no
// generation opens ends it with an error that names the row.
func All(ctx context.Context, db *store.Store, key *seal.Key) (Done, error) {
	var done Done
	var err error
	if done.Secrets, err = enrol.Reseal(ctx, db, key); err != nil {
		return done, err
	}
	volumes, err := volumeTargets(ctx, db, key)
	if done.Secrets += volumes; err != nil {
		return done, err
	}
	drives, err := configDrives(ctx, db, key)
	if done.Secrets += drives; err != nil {
		return done, err
	}
	steps, err := listedSteps(ctx, db, key)
	if done.Secrets += steps; err != nil {
		return done, err
	}
	for after := ""; ; {
		keys, err := db.NodeKeys(ctx, after, page)
		if err != nil || len(keys) == 0 {
			return done, err
		}
		var ids []string
		for _, k := range keys {
			ids = append(ids, k.UUID)
		}
		after = ids[len(ids)-1]
		rows, err := db.Snapshots(ctx, ids)
		if err != nil {
			return done, err
		}
		if err := publish(ctx, db, key, rows); err != nil {
			return done, err
		}
		for _, id := range ids {
			if rows[id] == nil || current(key, rows[id].Node) {
				done.Current++
				continue
			}
			switch err := one(ctx, db, key, id); {
			case errors.Is(err, store.ErrNotFound): // deleted meanwhile
			case err != nil:
				return done, fmt.Errorf("seal node %s again: %w", id, err)
			default:
				done.Nodes++
			}
		}
	}
}

func current(key *seal.Key, n *store.Node) bool {
	return key.CurrentFields(seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, n.DriverInfo) &&
		key.CurrentFields(seal.Label{Kind: seal.InstanceInfo, Of: n.UUID}, n.InstanceInfo)
}

// publish has the relay look at those nodes of a page whose secrets stay as they are: the code that
// their documents bear is made with the key too. The relay writes those of an older generation.
func publish(ctx context.Context, db *store.Store, key *seal.Key, rows map[string]*store.Snapshot) error {
	return db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		for id, row := range rows {
			if !current(key, row.Node) {
				continue // it is published with its secrets
			}
			if err := tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: id, Group: row.Node.ConductorGroup}); err != nil {
				return err
			}
		}
		return nil
	})
}

func one(ctx context.Context, db *store.Store, key *seal.Key, id string) error {
	return db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, id)
		if err != nil {
			return err
		}
		for kind, fields := range map[seal.Kind]*map[string]any{seal.DriverInfo: &n.DriverInfo, seal.InstanceInfo: &n.InstanceInfo} {
			if len(*fields) == 0 {
				continue
			}
			label := seal.Label{Kind: kind, Of: n.UUID}
			open, err := key.OpenFields(label, *fields)
			if err != nil {
				return err
			}
			*fields = key.SealFields(label, open)
		}
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: n.ConductorGroup})
	})
}

// volumeTargets seals the properties of volume targets anew and returns of how many.
func volumeTargets(ctx context.Context, db *store.Store, key *seal.Key) (count int, err error) {
	q := store.VolumeQuery{Page: store.Page{Limit: page, SortKey: "uuid"}}
	for {
		rows, err := db.VolumeTargets(ctx, q)
		if err != nil || len(rows) == 0 {
			return count, err
		}
		q.Marker = rows[len(rows)-1].UUID
		for _, row := range rows {
			label := seal.Label{Kind: seal.Volume, Of: row.UUID}
			if key.CurrentFields(label, row.Properties) {
				continue
			}
			err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				v, err := tx.VolumeTarget(ctx, row.UUID)
				if err != nil {
					return err
				}
				open, err := key.OpenFields(label, v.Properties)
				if err != nil {
					return err
				}
				v.Properties = key.SealFields(label, open)
				return tx.UpdateVolumeTarget(ctx, v)
			})
			switch {
			case errors.Is(err, store.ErrNotFound): // deleted meanwhile
			case err != nil:
				return count, fmt.Errorf("seal volume target %s again: %w", row.UUID, err)
			default:
				count++
			}
		}
	}
}

// drivePage is how many config drives are read at once: one may take megabytes.
const drivePage = 8

// configDrives seals the config drives that nodes keep anew and returns how many.
func configDrives(ctx context.Context, db *store.Store, key *seal.Key) (count int, err error) {
	for after := ""; ; {
		drives, err := db.ConfigDrives(ctx, after, drivePage)
		if err != nil || len(drives) == 0 {
			return count, err
		}
		for _, d := range drives {
			label := seal.Label{Kind: seal.StoredDrive, Of: d.Node}
			if after = d.Node; key.Current(label, d.Drive) {
				continue
			}
			err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				kept, err := tx.ConfigDrive(ctx, d.Node)
				if err != nil {
					return err
				}
				open, err := key.Open(label, kept.Drive)
				if err != nil {
					return err
				}
				return tx.SetConfigDrive(ctx, &store.ConfigDrive{Node: kept.Node, Drive: key.Seal(label, open)})
			})
			switch {
			case errors.Is(err, store.ErrNotFound): // dropped meanwhile
			case err != nil:
				return count, fmt.Errorf("seal the config drive of node %s again: %w", d.Node, err)
			default:
				count++
			}
		}
	}
}
