package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
)

func portgroups(t *testing.T, s *store.Store) {
	n := NewNode("n")
	n.ConductorGroup, n.Shard = "rack1", "s1"
	Insert(t, s, n)
	g := &store.Portgroup{UUID: uuid.NewString(), Node: n.UUID, Address: "52:54:00:aa:bb:01", Name: "bond0", Mode: "802.3ad",
		Properties: map[string]any{"miimon": "100"}}
	insert := func(g *store.Portgroup) error {
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertPortgroup(ctx, g) })
	}
	if err := insert(g); err != nil {
		t.Fatal(err)
	}
	for _, ident := range []string{g.UUID, "bond0"} {
		if got, err := s.Portgroup(t.Context(), ident); err != nil || !reflect.DeepEqual(got, g) {
			t.Errorf("portgroup %s: %+v, error %v, want %+v", ident, got, err, g)
		}
	}
	if read(t, s, "n").Revision <= n.Revision {
		t.Error("a new portgroup did not move its node's revision on")
	}
	wantDuplicate(t, insert(&store.Portgroup{UUID: uuid.NewString(), Node: n.UUID, Address: g.Address}), "address", g.Address)
	wantDuplicate(t, insert(&store.Portgroup{UUID: uuid.NewString(), Node: n.UUID, Name: g.Name}), "name", g.Name)
	if err := insert(&store.Portgroup{UUID: uuid.NewString(), Node: uuid.NewString()}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("portgroup of no node: %v, want ErrNotFound", err)
	}
	for want, queries := range map[int][]store.PortgroupQuery{
		1: {{}, {Nodes: []string{n.UUID}}, {Address: g.Address}, {Shards: []string{"s1"}}, {ConductorGroups: []string{"rack1"}}},
		0: {{Nodes: []string{"m"}}, {Shards: []string{"s2"}}, {ConductorGroups: []string{"rack2"}}},
	} {
		for _, q := range queries {
			if list, err := s.Portgroups(t.Context(), q); err != nil || len(list) != want {
				t.Errorf("portgroups %+v: %d, error %v, want %d", q, len(list), err, want)
			}
		}
	}
	p := &store.Port{UUID: uuid.NewString(), Node: n.UUID, Address: "52:54:00:aa:bb:02", PortgroupUUID: g.UUID,
		InternalInfo: map[string]any{store.TenantVIF: "v", "kept": true}}
	g.InternalInfo = map[string]any{store.TenantVIF: "w"}
	inUse := false
	update(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		if err := errors.Join(tx.InsertPort(ctx, p), tx.UpdatePortgroup(ctx, g)); err != nil {
			return err
		}
		if inUse, err = tx.PortgroupInUse(ctx, g.UUID); err != nil {
			return err
		}
		return tx.DetachVIFs(ctx, n.UUID)
	})
	port, err := s.Port(t.Context(), p.UUID)
	group, groupErr := s.Portgroup(t.Context(), g.UUID)
	if err := errors.Join(err, groupErr); err != nil || !inUse || len(port.InternalInfo) != 1 || len(group.InternalInfo) != 0 {
		t.Errorf("in use %t, port %+v, portgroup %+v, error %v: the VIFs must be gone and nothing else", inUse, port, group, err)
	}
	to := NewNode("to")
	Insert(t, s, to)
	port.Node, group.Node = to.UUID, to.UUID
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.Touch(ctx, n.UUID), tx.UpdatePort(ctx, port), tx.UpdatePortgroup(ctx, group))
	})
	if ports, err := s.Ports(t.Context(), store.PortQuery{Nodes: []string{to.UUID}, Portgroups: []string{g.UUID}}); err != nil || len(ports) != 1 {
		t.Errorf("ports of the node that they have moved to: %v, error %v", ports, err)
	}
	g = group
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.DeletePortgroup(ctx, g) })
	if _, err := s.Portgroup(t.Context(), g.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted portgroup: %v, want ErrNotFound", err)
	}
}

func volumes(t *testing.T, s *store.Store) {
	n := NewNode("n")
	Insert(t, s, n)
	c := &store.VolumeConnector{UUID: uuid.NewString(), Node: n.UUID, Type: "iqn", ConnectorID: "iqn.2026-01:n"}
	v := &store.VolumeTarget{UUID: uuid.NewString(), Node: n.UUID, VolumeType: "iscsi", VolumeID: "v1", BootIndex: 0, Properties: map[string]any{"target_lun": "1"}}
	try := func(do func(context.Context, *store.Tx) error) error { return s.Update(t.Context(), do) }
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertVolumeConnector(ctx, c), tx.InsertVolumeTarget(ctx, v))
	})
	again := *c
	again.UUID = uuid.NewString()
	wantDuplicate(t, try(func(ctx context.Context, tx *store.Tx) error { return tx.InsertVolumeConnector(ctx, &again) }), "connector_id", "iqn "+c.ConnectorID)
	same := *v
	same.UUID = uuid.NewString()
	wantDuplicate(t, try(func(ctx context.Context, tx *store.Tx) error { return tx.InsertVolumeTarget(ctx, &same) }), "boot_index", "0")
	for _, q := range []store.VolumeQuery{{}, {Nodes: []string{n.UUID}}} {
		connectors, err := s.VolumeConnectors(t.Context(), q)
		targets, errTargets := s.VolumeTargets(t.Context(), q)
		if err := errors.Join(err, errTargets); err != nil || len(connectors) != 1 || len(targets) != 1 ||
			!reflect.DeepEqual(connectors[0], c) || !reflect.DeepEqual(targets[0], v) {
			t.Errorf("%+v: connectors %+v, targets %+v, error %v", q, connectors, targets, err)
		}
	}
	for name, change := range map[string]func(context.Context, *store.Tx) error{
		"connector": func(ctx context.Context, tx *store.Tx) error { return tx.UpdateVolumeConnector(ctx, c) },
		"target":    func(ctx context.Context, tx *store.Tx) error { return tx.UpdateVolumeTarget(ctx, v) },
	} {
		before := read(t, s, n.UUID)
		update(t, s, change)
		if after := read(t, s, n.UUID); after.Revision <= before.Revision || !after.UpdatedAt.After(before.UpdatedAt) {
			t.Errorf("a change of its volume %s leaves node at revision %d of %v, as before (%d)", name, after.Revision, after.UpdatedAt, before.Revision)
		}
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteNode(ctx, n.UUID) })
	if _, err := s.VolumeTarget(t.Context(), v.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("target of a node that was deleted: %v, want ErrNotFound", err)
	}
	if _, err := s.VolumeConnector(t.Context(), c.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("connector of a node that was deleted: %v, want ErrNotFound", err)
	}
}
