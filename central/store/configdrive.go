package store

import (
	"context"
	"fmt"
)

// DriveKey is the key of a node's instance_info that stands for its config drive, DriveKept
// what it holds: drives are large and secret, so they lie in a table of their own, which
// nobody reads for lists and whom the events of a rack do not write anew.
const (
	DriveKey  = "configdrive"
	DriveKept = "******"
)

var (
	selectDrive  = register("SELECT node, drive FROM config_drives WHERE node = $1")
	selectDrives = register("SELECT node, drive FROM config_drives WHERE node > $1 ORDER BY node LIMIT $2")
	upsertDrive  = register("INSERT INTO config_drives (node, drive) VALUES ($1, $2) ON CONFLICT (node) DO UPDATE SET drive = excluded.drive")
	deleteDrive  = register("DELETE FROM config_drives WHERE node = $1")
)

// ConfigDrive is the config drive that a node's instance was deployed with last, for a
// rebuild without one.
type ConfigDrive struct {
	Node  string
	Drive string // sealed with the database key for the node
}

// ConfigDrive returns the node's config drive, or ErrNotFound.
func (tx *Tx) ConfigDrive(ctx context.Context, node string) (*ConfigDrive, error) {
	list, err := readDrives(ctx, tx.conn, selectDrive, node)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("config drive of node %s: %w", node, err)
	}
	return list[0], nil
}

// ConfigDrives returns up to limit config drives of nodes after afterNode, in order of the node.
func (s *Store) ConfigDrives(ctx context.Context, afterNode string, limit int) ([]*ConfigDrive, error) {
	list, err := readDrives(ctx, s.engine, selectDrives, afterNode, limit)
	if err != nil {
		return nil, fmt.Errorf("config drives after node %q: %w", afterNode, err)
	}
	return list, nil
}

func readDrives(ctx context.Context, c conn, stmt string, args ...any) (list []*ConfigDrive, err error) {
	r, err := c.query(ctx, stmt, args...)
	return list, scanAll(r, err, func(r rows) error {
		d := new(ConfigDrive)
		list = append(list, d)
		return r.Scan(&d.Node, &d.Drive)
	})
}

// SetConfigDrive keeps a node's config drive; its instance_info is the caller's to write,
// in the same transaction.
func (tx *Tx) SetConfigDrive(ctx context.Context, d *ConfigDrive) error {
	if _, err := tx.conn.exec(ctx, upsertDrive, d.Node, d.Drive); err != nil {
		return fmt.Errorf("keep the config drive of node %s: %w", d.Node, err)
	}
	return nil
}

// DropConfigDrive forgets a node's config drive; it is no error that there is none.
func (tx *Tx) DropConfigDrive(ctx context.Context, node string) error {
	if _, err := tx.conn.exec(ctx, deleteDrive, node); err != nil {
		return fmt.Errorf("drop the config drive of node %s: %w", node, err)
	}
	return nil
}
