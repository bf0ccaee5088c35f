package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Snapshot is all that the documents of a node are rendered from.
type Snapshot struct {
	Node       *Node
	Ports      []*Port
	Connectors []*VolumeConnector
	Targets    []*VolumeTarget
	Work       *Work // open, or nil
}

// hasVolumes is 1 for a node with volumes, of which most have none.
const hasVolumes = "CASE WHEN EXISTS (SELECT 1 FROM volume_connectors vc WHERE vc.node = n.uuid) OR EXISTS (SELECT 1 FROM volume_targets vt WHERE vt.node = n.uuid) THEN 1 ELSE 0 END"

func snapshotsOf(nodes []string) (string, []any) {
	list, args := inList(1, nodes)
	return "SELECT " + hasVolumes + ", n.revision, " + names(nodeColumns, "n.") + ", " + outer(workColumns, "w.") + ", " + outer(portColumns, "p.") +
		" FROM nodes n LEFT JOIN works w ON w.node = n.uuid AND w.state = 'open' LEFT JOIN ports p ON p.node = n.uuid" +
		" WHERE n.uuid IN (" + list + ") ORDER BY n.uuid, p.uuid", args
}

// nowOf asks for all that held nodes leave open: whether they still are what the rows say,
// and their ports.
func nowOf(nodes []string) (string, []any) {
	list, args := inList(1, nodes)
	return "SELECT " + hasVolumes + ", n.uuid, n.revision, COALESCE(w.id, ''), " + outer(portColumns, "p.") +
		" FROM nodes n LEFT JOIN works w ON w.node = n.uuid AND w.state = 'open' LEFT JOIN ports p ON p.node = n.uuid" +
		" WHERE n.uuid IN (" + list + ") ORDER BY n.uuid, p.uuid", args
}

var selectNodeKeys = register("SELECT n.uuid, n.conductor_group FROM nodes n WHERE n.uuid > $1 ORDER BY n.uuid LIMIT $2")

func init() {
	builders = append(builders, func() []string {
		whole, _ := snapshotsOf([]string{"a", "b"})
		now, _ := nowOf([]string{"a", "b"})
		connectors, _ := volumesOf(volumeConnectors, []string{"a", "b"})
		targets, _ := volumesOf(volumeTargets, []string{"a", "b"})
		return []string{whole, now, connectors, targets}
	})
}

// Snapshots reads nodes with their ports, in order of UUID, and open work, by UUID;
// those that do not exist are missing. It is one statement, so nodes, ports and works
// held at one moment. Volumes are read behind it, where there are any: they may be newer than their node, never older.
func (s *Store) Snapshots(ctx context.Context, nodes []string) (map[string]*Snapshot, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	out := make(map[string]*Snapshot, len(nodes))
	stmt, args := snapshotsOf(nodes)
	r, err := s.engine.query(ctx, stmt, args...)
	var volumes []string
	err = scanAll(r, err, func(r rows) error { return scanSnapshot(r, out, &volumes) })
	if err != nil {
		return nil, fmt.Errorf("read %d nodes for their sites: %w", len(nodes), err)
	}
	return out, s.readVolumes(ctx, volumes, out)
}

// volumesOf asks for the rows of a table of volumes that belong to nodes, the oldest first.
func volumesOf[T any](t *table[T], nodes []string) (string, []any) {
	list, args := inList(1, nodes)
	return t.selectAll + " WHERE t.node IN (" + list + ") ORDER BY t.node, t.created_at, t.uuid", args
}

// readVolumes adds the volumes of nodes.
func (s *Store) readVolumes(ctx context.Context, nodes []string, of map[string]*Snapshot) error {
	if len(nodes) == 0 {
		return nil
	}
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	stmt, args := volumesOf(volumeConnectors, nodes)
	connectors, err := volumeConnectors.read(ctx, s.engine, stmt, args...)
	if err != nil {
		return err
	}
	for _, v := range connectors {
		of[v.Node].Connectors = append(of[v.Node].Connectors, v)
	}
	stmt, args = volumesOf(volumeTargets, nodes)
	targets, err := volumeTargets.read(ctx, s.engine, stmt, args...)
	if err != nil {
		return err
	}
	for _, v := range targets {
		of[v.Node].Targets = append(of[v.Node].Targets, v)
	}
	return nil
}

// SnapshotsWith is Snapshots for a caller that holds nodes as transactions have left them.
// Of those that are still so, which their stamps tell, and have no open work, only stamp
// and ports are read; they are the held ones in what is returned. What a node's ports are
// may be newer than the node, never older.
func (s *Store) SnapshotsWith(ctx context.Context, nodes []string, held map[string]*Node) (map[string]*Snapshot, error) {
	if len(held) == 0 {
		return s.Snapshots(ctx, nodes)
	}
	out := make(map[string]*Snapshot, len(nodes))
	var volumes []string
	stmt, args := nowOf(slices.Collect(maps.Keys(held)))
	r, err := s.engine.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		var id string
		var some int64
		var now Stamp
		p := new(Port)
		if err := r.Scan(append([]any{&some, &id, &now.Revision, &now.WorkID}, fields(portColumns, p)...)...); err != nil {
			return err
		}
		n := held[id]
		if n == nil || now.WorkID != "" || now != n.Stamp() {
			return nil
		}
		if out[id] == nil {
			out[id] = &Snapshot{Node: n}
		}
		if some != 0 {
			volumes = append(volumes, id)
		}
		if p.UUID != "" {
			out[id].Ports = append(out[id].Ports, p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("compare %d nodes with the database: %w", len(held), err)
	}
	if err := s.readVolumes(ctx, volumes, out); err != nil {
		return nil, err
	}
	left := slices.DeleteFunc(slices.Clone(nodes), func(id string) bool { return out[id] != nil })
	whole, err := s.Snapshots(ctx, left)
	maps.Copy(out, whole)
	return out, err
}

// scanSnapshot reads a row, which is a node with one of its ports, into out; volumes get the nodes that have some.
func scanSnapshot(r rows, out map[string]*Snapshot, volumes *[]string) error {
	n, w, p := new(Node), new(Work), new(Port)
	var some int64
	dest := append([]any{&some, &n.Revision}, fields(nodeColumns, n)...)
	dest = append(append(dest, fields(workColumns, w)...), fields(portColumns, p)...)
	if err := r.Scan(dest...); err != nil {
		return err
	}
	row := out[n.UUID]
	if row == nil {
		n.WorkID = w.ID
		n.finish(string(w.Verb), w.Owner)
		row = &Snapshot{Node: n}
		if w.ID != "" {
			row.Work = w
		}
		out[n.UUID] = row
		if some != 0 {
			*volumes = append(*volumes, n.UUID)
		}
	}
	if p.UUID != "" {
		row.Ports = append(row.Ports, p)
	}
	return nil
}

// NodeKey says where a node's documents belong.
type NodeKey struct{ UUID, Group string }

// NodeKeys returns up to limit nodes after afterNode, in order of UUID.
func (s *Store) NodeKeys(ctx context.Context, afterNode string, limit int) ([]NodeKey, error) {
	var list []NodeKey
	r, err := s.engine.query(ctx, selectNodeKeys, afterNode, limit)
	err = scanAll(r, err, func(r rows) error {
		var k NodeKey
		if err := r.Scan(&k.UUID, &k.Group); err != nil {
			return err
		}
		list = append(list, k)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list node keys: %w", err)
	}
	return list, nil
}
