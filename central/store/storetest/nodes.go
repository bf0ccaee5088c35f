package storetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

func nodeRoundTrip(t *testing.T, s *store.Store) {
	yes := true
	now := time.Date(2026, 11, 1, 12, 0, 0, 123456000, time.UTC)
	want := NewNode("round-trip")
	want.ConductorGroup, want.ResourceClass, want.Description = "Rack.1", "gold", "50% of \"it\", ünïcode \\ and '"
	want.Interfaces = map[string]string{"boot": "ipxe", "deploy": "direct"}
	want.Properties = map[string]any{"cpus": 8.0, "nested": map[string]any{"a": []any{"b", nil, true}}}
	want.InstanceInfo, want.InstanceUUID = map[string]any{"image_source": "http://x"}, uuid.NewString()
	want.AutomatedClean, want.SecureBoot, want.BootMode = &yes, &yes, "uefi"
	want.CreatedAt, want.AcceptedAt = now, now
	want.Traits = []string{"CUSTOM_B", "CUSTOM_A"}
	want.Protected, want.Retired = true, true
	Insert(t, s, want)
	got := read(t, s, "round-trip")
	expect(t, "group", got.ConductorGroup, "rack.1")
	slices.Sort(want.Traits)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%+v\nwant\n%+v", got, want)
	}
	if byID := read(t, s, want.UUID); !reflect.DeepEqual(byID, got) {
		t.Errorf("by UUID %+v", byID)
	}
	for _, ident := range []string{"", "nobody", uuid.NewString()} {
		if _, err := s.Node(t.Context(), ident); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("node %q: error %v, want ErrNotFound", ident, err)
		}
	}
}

func duplicates(t *testing.T, s *store.Store) {
	a, b := NewNode("a"), NewNode("b")
	a.InstanceUUID = uuid.NewString()
	Insert(t, s, a, b, NewNode(""), NewNode("")) // nameless nodes do not collide
	insert := func(n *store.Node) error {
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertNode(ctx, n) })
	}
	same := NewNode("c")
	same.UUID = a.UUID
	wantDuplicate(t, insert(same), "uuid", a.UUID)
	wantDuplicate(t, insert(NewNode("a")), "name", "a")
	associated := NewNode("d")
	associated.InstanceUUID = a.InstanceUUID
	wantDuplicate(t, insert(associated), "instance_uuid", a.InstanceUUID)
	b.Name = "a"
	wantDuplicate(t, s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.UpdateNode(ctx, b) }), "name", "a")
}

func wantDuplicate(t *testing.T, err error, field, value string) {
	t.Helper()
	var d *store.DuplicateError
	if !errors.As(err, &d) || d.Field != field || d.Value != value {
		t.Errorf("error %v, want a DuplicateError of %s %s", err, field, value)
	}
}

func staleRevision(t *testing.T, s *store.Store) {
	Insert(t, s, NewNode("n"))
	first, second := read(t, s, "n"), read(t, s, "n")
	write := func(n *store.Node) error {
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.UpdateNode(ctx, n) })
	}
	first.Owner = "first"
	if err := write(first); err != nil {
		t.Fatal(err)
	}
	expect(t, "revision", first.Revision, read(t, s, "n").Revision)
	second.Owner = "second"
	if err := write(second); !errors.Is(err, store.ErrConflict) {
		t.Errorf("stale write: %v, want ErrConflict", err)
	}
	expect(t, "owner", read(t, s, "n").Owner, "first")
}

// effective: a report counts from the generation that it is about.
func effective(t *testing.T, s *store.Store) {
	Insert(t, s, NewNode("n"))
	change := func(f func(n *store.Node), write func(*store.Tx, context.Context, *store.Node) error) *store.Node {
		t.Helper()
		var inMemory *store.Node
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, "n")
			if err != nil {
				return err
			}
			f(n)
			inMemory = n
			return write(tx, ctx, n)
		})
		n := read(t, s, "n")
		if n.ProvisionState != inMemory.ProvisionState && memoryIsEnough(n) {
			t.Errorf("state %q in memory, %q in the database", inMemory.ProvisionState, n.ProvisionState)
		}
		return n
	}
	intent := func(tx *store.Tx, ctx context.Context, n *store.Node) error { return tx.UpdateNode(ctx, n) }
	observation := func(tx *store.Tx, ctx context.Context, n *store.Node) error { return tx.UpdateObservation(ctx, n) }

	now := time.Unix(2000, 0).UTC()
	n := change(func(n *store.Node) { n.Accept(provision.Deploying, provision.Active, now) }, intent)
	expect(t, "accepted", n.ProvisionState, provision.Deploying)
	expect(t, "bound for", n.TargetProvisionState, provision.Active)
	expect(t, "at", n.ProvisionUpdatedAt, now)
	n = change(func(n *store.Node) {
		n.ObservedGeneration, n.ObservedState, n.ObservedTarget, n.ObservedError = 1, provision.DeployFail, provision.Active, "no agent"
	}, observation)
	expect(t, "observed", n.ProvisionState, provision.DeployFail)
	expect(t, "error", n.LastError, "no agent")
	n = change(func(n *store.Node) { n.AcceptPower("power off", now) }, intent)
	expect(t, "state during power work", n.ProvisionState, provision.DeployFail)
	expect(t, "target during power work", n.TargetProvisionState, provision.Active)
	expect(t, "target power", n.TargetPowerState, "power off")
	expect(t, "error is cleared", n.LastError, "")
	n = change(func(n *store.Node) {
		n.ObservedGeneration, n.PowerObservedGeneration = 2, 2
		n.FaultNumber, n.ObservedFault, n.FaultWhy = 1, "power failure", "BMC is gone"
	}, observation)
	expect(t, "target power", n.TargetPowerState, "")
	expect(t, "maintenance by fault", n.Maintenance, true)
	expect(t, "fault", n.Fault, "power failure")
	expect(t, "reason", n.MaintenanceReason, "BMC is gone")
	n = change(func(n *store.Node) { n.SetMaintenance(false, "") }, intent)
	expect(t, "maintenance", n.Maintenance, false)
	expect(t, "fault", n.Fault, "")
	n = change(func(n *store.Node) { n.SetMaintenance(true, "disk swap") }, intent)
	expect(t, "maintenance", n.Maintenance, true)
	expect(t, "reason", n.MaintenanceReason, "disk swap")
}

// memoryIsEnough reports whether memory and database must agree: always after intent.
func memoryIsEnough(n *store.Node) bool { return n.ObservedGeneration < n.Generation }

func filters(t *testing.T, s *store.Store) {
	a, b, c := NewNode("a"), NewNode("b"), NewNode("c")
	a.Owner, a.Shard, a.InstanceUUID, a.ConductorGroup = "p1", "s1", uuid.NewString(), "rack1"
	b.Lessee, b.Retired, b.Description, b.Driver = "p1", true, "100%_SURE", "redfish"
	c.ParentNode, c.AcceptedState, c.MaintenanceSet = a.UUID, provision.Enroll, true
	Insert(t, s, a, b, c)
	yes, no, enroll, rack, none, sure, odd := true, false, "enroll", "RACK1", "", "0%_sure", "1%e"
	for _, f := range []struct {
		name string
		q    store.NodeQuery
		want []string
	}{
		{"all parents", store.NodeQuery{}, []string{"a", "b"}},
		{"children too", store.NodeQuery{IncludeChildren: true}, []string{"a", "b", "c"}},
		{"children of", store.NodeQuery{ParentNode: a.UUID}, []string{"c"}},
		{"project", store.NodeQuery{Project: "p1"}, []string{"a", "b"}},
		{"owner", store.NodeQuery{Owner: "p1"}, []string{"a"}},
		{"lessee", store.NodeQuery{Lessee: "p1"}, []string{"b"}},
		{"shard", store.NodeQuery{Shards: []string{"s1", "s2", "s3"}}, []string{"a"}},
		{"sharded", store.NodeQuery{Sharded: &no}, []string{"b"}},
		{"associated", store.NodeQuery{Associated: &yes}, []string{"a"}},
		{"not associated", store.NodeQuery{Associated: &no}, []string{"b"}},
		{"instance", store.NodeQuery{InstanceUUID: a.InstanceUUID}, []string{"a"}},
		{"retired", store.NodeQuery{Retired: &yes}, []string{"b"}},
		{"maintenance", store.NodeQuery{Maintenance: &yes, IncludeChildren: true}, []string{"c"}},
		{"state", store.NodeQuery{ProvisionState: &enroll, IncludeChildren: true}, []string{"c"}},
		{"group", store.NodeQuery{ConductorGroup: &rack}, []string{"a"}},
		{"no group", store.NodeQuery{ConductorGroup: &none}, []string{"b"}},
		{"driver", store.NodeQuery{Driver: "redfish"}, []string{"b"}},
		{"description", store.NodeQuery{DescriptionContains: &sure}, []string{"b"}},
		{"description without wildcards", store.NodeQuery{DescriptionContains: &odd}, nil},
		{"any description", store.NodeQuery{DescriptionContains: &none}, []string{"b"}},
		{"uuids", store.NodeQuery{UUIDs: []string{a.UUID, b.UUID, c.UUID}}, []string{"a", "b"}},
		{"none", store.NodeQuery{Fault: &enroll}, nil},
	} {
		f.q.SortKey = "name"
		list, err := s.Nodes(t.Context(), f.q)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		var got []string
		for _, n := range list {
			got = append(got, n.Name)
		}
		if !slices.Equal(got, f.want) {
			t.Errorf("%s: got %v, want %v", f.name, got, f.want)
		}
	}
}

// truth is a text that sorts as Ironic sorts null, false and true.
func truth(b *bool) string {
	if b == nil {
		return ""
	}
	return map[bool]string{false: "0", true: "1"}[*b]
}

func paging(t *testing.T, s *store.Store) {
	nodes := numbered("n", 9)
	yes, no := true, false
	for i, n := range nodes { // some have the same, some have nothing
		if i%3 == 2 {
			n.Name = ""
		}
		n.AutomatedClean, n.SecureBoot = []*bool{nil, &yes, &no}[i%3], []*bool{&no, nil}[i%2]
		if i%4 > 1 {
			n.Owner, n.Lessee, n.InstanceName, n.InstanceUUID, n.ChassisUUID = string(rune('c'-i%3)), "l", string(rune('z'-i)), uuid.NewString(), "c"
		}
	}
	for i, n := range nodes {
		if i%3 != 1 { // the others have none at all, or none of this kind
			n.Interfaces = map[string]string{"boot": []string{"redfish-virtual-media", "ipxe"}[i%2]}
		}
		if i%3 == 0 {
			n.Interfaces["bios"], n.Interfaces["vendor"] = "no-bios", "a\"b\\ü"
		}
	}
	Insert(t, s, nodes...)
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		var errs []error
		for i, n := range nodes {
			if i%3 == 1 {
				w := NewWork(n, work.Deploy)
				w.Owner = string(rune('z' - i))
				errs = append(errs, tx.InsertWork(ctx, w))
			}
		}
		return errors.Join(errs...)
	})
	value := map[string]func(*store.Node) string{
		"name":        func(n *store.Node) string { return n.Name },
		"reservation": func(n *store.Node) string { return n.Reservation }, "owner": func(n *store.Node) string { return n.Owner },
		"instance_uuid": func(n *store.Node) string { return n.InstanceUUID }, "instance_name": func(n *store.Node) string { return n.InstanceName },
		"boot_interface": func(n *store.Node) string { return n.Interfaces["boot"] }, "vendor_interface": func(n *store.Node) string { return n.Interfaces["vendor"] },
		"automated_clean": func(n *store.Node) string { return truth(n.AutomatedClean) }, "secure_boot": func(n *store.Node) string { return truth(n.SecureBoot) },
	}
	for _, sort := range []string{"created_at", "name", "uuid", "provision_state", "maintenance", "updated_at", "reservation", "automated_clean", "secure_boot",
		"owner", "lessee", "instance_uuid", "instance_name", "chassis_uuid",
		"bios_interface", "boot_interface", "vendor_interface"} {
		for _, desc := range []bool{false, true} {
			whole, err := s.Nodes(t.Context(), store.NodeQuery{Page: store.Page{SortKey: sort, Desc: desc}})
			if err != nil || len(whole) != 9 {
				t.Fatalf("sort by %s: %d nodes, error %v", sort, len(whole), err)
			}
			if of := value[sort]; of != nil {
				var values []string
				for _, n := range whole {
					values = append(values, of(n))
				}
				if desc {
					slices.Reverse(values)
				}
				if !slices.IsSorted(values) || values[0] != "" || values[8] == "" {
					t.Errorf("sorted by %s, desc %t: %q", sort, desc, values)
				}
			}
			var got []string
			page := store.Page{SortKey: sort, Desc: desc, Limit: 2}
			for {
				list, err := s.Nodes(t.Context(), store.NodeQuery{Page: page})
				if err != nil {
					t.Fatal(err)
				}
				if len(list) == 0 {
					break
				}
				for _, n := range list {
					got = append(got, n.UUID)
				}
				page.Marker = got[len(got)-1]
			}
			for i, n := range whole {
				if i >= len(got) || got[i] != n.UUID {
					t.Fatalf("sort by %s, desc %v: pages differ from the whole at %d", sort, desc, i)
				}
			}
		}
	}
	if _, err := s.Nodes(t.Context(), store.NodeQuery{Page: store.Page{Marker: uuid.NewString()}}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown marker: %v, want ErrNotFound", err)
	}
	var invalid *store.InvalidSortError
	for _, sort := range []string{"driver_info", "uuid; DROP TABLE nodes", "revision", "observed_state", "interfaces", "_interface", "x_interface"} {
		if _, err := s.Nodes(t.Context(), store.NodeQuery{Page: store.Page{SortKey: sort}}); !errors.As(err, &invalid) {
			t.Errorf("sort by %q: %v, want an InvalidSortError", sort, err)
		}
	}
}
