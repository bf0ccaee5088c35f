package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
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
	// selectInstanceDrives finds the nodes that keep a drive and whose instance reads it from its site for as long as it is there. Keys of
	// JSON are written in their order, so that this one is the first of its object.
	selectInstanceDrives = register("SELECT c.node FROM config_drives c JOIN nodes n ON n.uuid = c.node WHERE c.node > $1 AND n.driver_internal_info LIKE $2 ORDER BY c.node LIMIT $3")
	upsertDrive          = register("INSERT INTO config_drives (node, drive) VALUES ($1, $2) ON CONFLICT (node) DO UPDATE SET drive = excluded.drive")
	deleteDrive          = register("DELETE FROM config_drives WHERE node = $1")
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

// InstanceDrives returns up to limit nodes after afterNode, in their order, that keep a config drive which their instance's machine reads
// for as long as the instance is there (node.FileDrive).
func (s *Store) InstanceDrives(ctx context.Context, afterNode string, limit int) (list []string, err error) {
	r, err := s.engine.query(ctx, selectInstanceDrives, afterNode, `%"`+node.InstanceFilesKey+`":{"`+node.FileDrive+`":%`, limit)
	err = scanAll(r, err, func(r rows) error {
		var id string
		err := r.Scan(&id)
		list = append(list, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nodes with config drives of instances after node %q: %w", afterNode, err)
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

// ErrDriveMask says that what was to be kept as a config drive is what answers show for one.
var ErrDriveMask = errors.New("instance_info/configdrive is the mask that answers show for a config drive, not a config drive")

// Sealer makes of a secret what may be stored. A *seal.Key is one.
type Sealer interface {
	Seal(label seal.Label, plain string) string
}

// KeepDrive puts the config drive that was written into n's instance_info where drives are
// kept, sealed; before is what stood there, nil for nothing. The caller writes n in the same
// transaction. ErrDriveMask: it is no drive, nothing has changed.
func (tx *Tx) KeepDrive(ctx context.Context, n *Node, before any, sealer Sealer) error {
	value := n.InstanceInfo[DriveKey]
	switch {
	case value == nil || value == "":
		if before == nil {
			return nil
		}
		return tx.DropConfigDrive(ctx, n.UUID)
	case value == DriveKept && before == DriveKept:
		return nil
	case value == DriveKept:
		return ErrDriveMask
	}
	text, isText := value.(string)
	if !isText {
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("config drive of node %s: %w", n.UUID, err)
		}
		text = string(encoded)
	}
	n.InstanceInfo = maps.Clone(n.InstanceInfo)
	n.InstanceInfo[DriveKey] = DriveKept
	return tx.SetConfigDrive(ctx, &ConfigDrive{Node: n.UUID, Drive: sealer.Seal(seal.Label{Kind: seal.StoredDrive, Of: n.UUID}, text)})
}

// DropConfigDrive forgets a node's config drive; it is no error that there is none.
func (tx *Tx) DropConfigDrive(ctx context.Context, node string) error {
	if _, err := tx.conn.exec(ctx, deleteDrive, node); err != nil {
		return fmt.Errorf("drop the config drive of node %s: %w", node, err)
	}
	return nil
}
