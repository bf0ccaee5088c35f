package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// withDrive gives the work of a, a deploy or rebuild, its config drive: the one that the
// request brings, which is kept, else the one that the node keeps. It writes nothing.
func (d *Dispatcher) withDrive(ctx context.Context, tx *store.Tx, a *acceptance, drive string) error {
	n, w := a.node, a.work
	stored := seal.Label{Kind: seal.StoredDrive, Of: n.UUID}
	if drive != "" {
		info := maps.Clone(n.InstanceInfo)
		if info == nil {
			info = map[string]any{}
		}
		info[store.DriveKey] = store.DriveKept
		n.InstanceInfo = info
		a.keep = &store.ConfigDrive{Node: n.UUID, Drive: d.Key.Seal(stored, drive)}
	} else {
		if n.InstanceInfo[store.DriveKey] != store.DriveKept {
			return nil
		}
		kept, err := tx.ConfigDrive(ctx, n.UUID)
		if errors.Is(err, store.ErrNotFound) { // dropped since the node was read: writing it will say so
			return nil
		}
		if err != nil {
			return err
		}
		if drive, err = d.Key.Open(stored, kept.Drive); err != nil {
			return fmt.Errorf("open the config drive that node %s keeps: %w", n.UUID, err)
		}
	}
	key, err := d.groupKey(n.ConductorGroup)
	if err != nil {
		return fmt.Errorf("seal the config drive of node %s: %w", n.UUID, err)
	}
	w.Args.ConfigDrive = w.ID
	a.drive = &store.Outbox{Kind: store.OutboxDrive, Node: n.UUID, Group: n.ConductorGroup, Object: w.ID, Payload: key.Seal(seal.Label{Kind: seal.SentDrive, Of: n.UUID, Work: w.ID}, drive)}
	return nil
}
