package relay

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// sightBench changes one node and looks at what its documents show of it.
type sightBench struct {
	*testing.T
	store *store.Store
	key   *seal.Key
	id    string
}

func newSightBench(t *testing.T) *sightBench {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	b := &sightBench{T: t, store: storetest.Open(t, storetest.SQLite(t)), key: key}
	b.enrol()
	return b
}

// enrol goes on with another node.
func (b *sightBench) enrol() {
	b.Helper()
	n := storetest.NewNode("")
	n.DriverInfo, n.ObservedFault = map[string]any{"address": "1"}, node.PowerFailure
	storetest.Insert(b, b.store, n)
	b.id = n.UUID
}

func (b *sightBench) document() (*node.Document, *store.Node) {
	b.Helper()
	rows, err := b.store.Snapshots(b.Context(), []string{b.id})
	if err != nil {
		b.Fatal(err)
	}
	group, err := b.key.ForGroup(rows[b.id].Node.ConductorGroup)
	if err != nil {
		b.Fatal(err)
	}
	d, err := render(b.key, group, rows[b.id])
	if err != nil {
		b.Fatal(err)
	}
	return d, rows[b.id].Node
}

// change does so in a transaction and reports whether the rack is told.
func (b *sightBench) change(do func(ctx context.Context, tx *store.Tx, n *store.Node) error) (told bool) {
	b.Helper()
	stop := b.store.WatchOutbox(func(entries []*store.Outbox) { told = len(entries) > 0 })
	defer stop()
	err := b.store.Update(b.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, b.id)
		if err != nil {
			return err
		}
		if err := do(ctx, tx, n); err != nil {
			return err
		}
		return tx.Tell(ctx, &store.Outbox{Kind: store.OutboxNode, Node: b.id, Group: n.ConductorGroup})
	})
	if err != nil {
		b.Fatal(err)
	}
	return told
}

// different are the fields in which two documents differ, but for those that every
// write moves.
func different(a, b *node.Document) (fields []string) {
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		name := va.Type().Field(i).Name
		if name != "Revision" && name != "Updated" && !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			fields = append(fields, name)
		}
	}
	return fields
}

// alter puts something else into a field of a node.
func alter(t *testing.T, name string, f reflect.Value) {
	switch v := f.Addr().Interface().(type) {
	case *string:
		*v += "x"
	case *provision.State:
		*v = provision.Manageable
	case *store.EmptyTexts:
		v.Set("owner", true)
	case *bool:
		*v = !*v
	case **bool:
		yes := *v == nil || !**v
		*v = &yes
	case *int64:
		*v++
	case *uint64:
		*v++
	case *time.Time:
		*v = v.Add(time.Hour).UTC()
	case *map[string]string:
		*v = map[string]string{"power": name}
	case *map[string]any:
		*v = map[string]any{node.KeptKey: name, node.PinnedSinceKey: "7", node.MachineKey: map[string]any{"uuid": name}, node.DisksKey: name, node.AgentStepsKey: name, node.BootSetKey: name, node.LogMarkKey: name, node.InstanceFilesKey: map[string]any{"kernel": name}, node.DeployBootModeKey: name, node.SecureBootBeforeKey: name}
	default:
		t.Fatalf("this test knows no other value for field %s of a node", name)
	}
}

// The rack is told of a write exactly if its document changes, whichever field of a node
// it is. Whoever makes documents show more finds out here what else there is to do.
func TestTheRackIsToldOfWhatItsDocumentShows(t *testing.T) {
	t.Parallel()
	b := newSightBench(t)
	// Not written so, or not by itself, or not by what follows here.
	skip := []string{"UUID", "Revision", "CreatedAt", "UpdatedAt", "RackRevision", "Traits", "WorkID", "WorkVerb", "Reservation", "Texts"}
	// Parts of accepted requests, which change the document together with others.
	parts := []string{"FaultAcked", "AcceptedTarget", "AcceptedAt", "AcceptedError", "PowerGeneration", "PowerTarget", "InspectionStarted"}
	shown := map[string]bool{}
	kind := reflect.TypeFor[store.Node]()
	for i := range kind.NumField() {
		field := kind.Field(i)
		if !field.IsExported() || slices.Contains(skip, field.Name) {
			continue
		}
		for write, f := range map[string]func(*store.Tx, context.Context, *store.Node) error{
			"intent": (*store.Tx).UpdateNode, "observation": (*store.Tx).UpdateObservation,
		} {
			b.enrol()
			before, row := b.document()
			told := b.change(func(ctx context.Context, tx *store.Tx, n *store.Node) error {
				alter(t, field.Name, reflect.ValueOf(n).Elem().Field(i))
				return f(tx, ctx, n)
			})
			after, now := b.document()
			changes := different(before, after)
			for _, name := range changes {
				shown[name] = true
			}
			// Whose observation it is says itself what of it has to be told.
			more := write == "observation" || slices.Contains(parts, field.Name)
			if told != (len(changes) > 0) && !(told && more) {
				t.Errorf("%s, written as %s, changes %v of the document; the rack is told: %v", field.Name, write, changes, told)
			}
			if moved := now.RackRevision == now.Revision; moved != (told && write == "intent") || !moved && now.RackRevision != row.RackRevision {
				t.Errorf("%s, written as %s: the rack is told: %v, but the revision of what it sees was %d and is %d, the node's is %d",
					field.Name, write, told, row.RackRevision, now.RackRevision, now.Revision)
			}
			if now.Revision <= row.Revision {
				t.Errorf("%s, written as %s: revision %d after %d", field.Name, write, now.Revision, row.Revision)
			}
		}
	}
	// Ports have rows of their own; the others move with every write, or never.
	besides := []string{"UUID", "Revision", "Ports", "Traits", "Connectors", "Targets"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[node.Document]()) {
		if shown[f.Name] == slices.Contains(besides, f.Name) {
			t.Errorf("field %s of a document changed with one of the node's own fields: %v", f.Name, shown[f.Name])
		}
	}
}

// What is in a document besides the node's own row.
func TestTheRackIsToldOfTraitsAndPorts(t *testing.T) {
	b := newSightBench(t)
	if !b.change(func(ctx context.Context, tx *store.Tx, n *store.Node) error {
		return tx.SetTraits(ctx, n.UUID, []string{"T"})
	}) {
		t.Error("the rack is not told of traits")
	}
	p := &store.Port{UUID: store.NewID(), Node: b.id, Address: "02:00:00:00:00:01"}
	if !b.change(func(ctx context.Context, tx *store.Tx, _ *store.Node) error { return tx.InsertPort(ctx, p) }) {
		t.Error("the rack is not told of a new port")
	}
	kind := reflect.TypeFor[store.Port]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		if name == "UUID" || name == "Node" || name == "CreatedAt" || name == "UpdatedAt" || !kind.Field(i).IsExported() {
			continue
		}
		old := *p
		if name == "Address" {
			p.Address = "02:00:00:00:00:02"
		} else {
			alter(t, name, reflect.ValueOf(p).Elem().Field(i))
		}
		before, row := b.document()
		told := b.change(func(ctx context.Context, tx *store.Tx, _ *store.Node) error { return tx.UpdatePort(ctx, p) })
		after, now := b.document()
		seen := old.Document() != p.Document()
		if changes := different(before, after); seen != (len(changes) > 0) || told != seen {
			t.Errorf("%s of a port changes %v of the document; its own part differs: %v, the rack is told: %v", name, changes, seen, told)
		}
		if moved := now.RackRevision > row.RackRevision; moved != seen || now.RackRevision > after.Revision {
			t.Errorf("%s of a port: the revision of what the rack sees was %d and is %d, the document's is %d", name, row.RackRevision, now.RackRevision, after.Revision)
		}
	}
	_, row := b.document()
	if !b.change(func(ctx context.Context, tx *store.Tx, _ *store.Node) error { return tx.DeletePort(ctx, p) }) {
		t.Error("the rack is not told of a port that went")
	}
	if _, now := b.document(); now.RackRevision <= row.RackRevision {
		t.Errorf("a port went: the revision of what the rack sees was %d and is %d", row.RackRevision, now.RackRevision)
	}
}

// Volumes have rows of their own. What is sealed of them for the database is sealed for the group in the document.
func TestTheRackIsToldOfVolumes(t *testing.T) {
	b := newSightBench(t)
	const secret = "of a volume"
	c := &store.VolumeConnector{UUID: store.NewID(), Node: b.id, Type: "iqn", ConnectorID: "iqn.2026-11.org.example:m"}
	v := &store.VolumeTarget{UUID: store.NewID(), Node: b.id, VolumeType: "iscsi", VolumeID: "v"}
	label := seal.Label{Kind: seal.Volume, Of: v.UUID}
	v.Properties = b.key.SealFields(label, map[string]any{"target_lun": 1.0, "auth_password": secret})
	if !b.change(func(ctx context.Context, tx *store.Tx, _ *store.Node) error {
		return errors.Join(tx.InsertVolumeConnector(ctx, c), tx.InsertVolumeTarget(ctx, v))
	}) {
		t.Error("the rack is not told of new volumes")
	}
	d, n := b.document()
	if n.RackRevision != n.Revision || len(d.Connectors) != 1 || d.Connectors[0] != (node.Connector{Type: "iqn", ID: c.ConnectorID}) || len(d.Targets) != 1 || d.Targets[0].VolumeID != "v" {
		t.Fatalf("revisions %d and %d, connectors %v, %d targets", n.RackRevision, n.Revision, d.Connectors, len(d.Targets))
	}
	group, err := b.key.ForGroup(n.ConductorGroup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.key.OpenFields(label, d.Targets[0].Properties); err == nil {
		t.Error("the rack gets what is sealed for the database")
	}
	if open, err := group.OpenFields(label, d.Targets[0].Properties); err != nil || open["auth_password"] != secret || open["target_lun"] != 1.0 {
		t.Errorf("the rack reads %v, %v", open, err)
	}
	left := b.id
	b.enrol()
	if !b.change(func(ctx context.Context, tx *store.Tx, _ *store.Node) error {
		moved, err := tx.VolumeTarget(ctx, v.UUID)
		if err != nil {
			return err
		}
		moved.Node = b.id
		if err := tx.UpdateVolumeTarget(ctx, moved); err != nil {
			return err
		}
		if !slices.Equal(moved.Nodes(), []string{left, b.id}) {
			t.Errorf("moved from %s to %s: %v", left, b.id, moved.Nodes())
		}
		return nil
	}) {
		t.Error("the rack is not told of a volume that has moved to its node")
	}
	if d, _ := b.document(); len(d.Targets) != 1 {
		t.Errorf("%d targets of the node that it has moved to", len(d.Targets))
	}
	v.Node = b.id
	if !b.change(func(ctx context.Context, tx *store.Tx, _ *store.Node) error { return tx.DeleteVolumeTarget(ctx, v) }) {
		t.Error("the rack is not told of a volume that went")
	}
}

// Several writes of one transaction are told of together, and what is changed back is
// told of all the same: it may have been seen.
func TestTheRackIsToldOfWhatIsChangedBack(t *testing.T) {
	b := newSightBench(t)
	extra := func(n *store.Node) { n.Extra = map[string]any{"a": "b"} }
	properties := func(n *store.Node) { n.Properties = map[string]any{"a": "b"} }
	for _, c := range []struct {
		name   string
		writes []func(*store.Node)
		told   bool
	}{
		{"what is not seen", []func(*store.Node){extra}, false},
		{"both kinds at once", []func(*store.Node){func(n *store.Node) { extra(n); properties(n) }}, true},
		{"what is there already", []func(*store.Node){properties}, false},
		{"first what is seen", []func(*store.Node){func(n *store.Node) { n.Properties = nil }, extra}, true},
		{"there and back", []func(*store.Node){properties, func(n *store.Node) { n.Properties = nil }}, true},
		{"another group", []func(*store.Node){func(n *store.Node) { n.ConductorGroup = "other" }}, true},
		{"an object in its place", []func(*store.Node){func(n *store.Node) { n.DriverInfo["address"] = "2" }}, true},
		{"a secret that is sealed anew", []func(*store.Node){func(n *store.Node) {
			n.DriverInfo = maps.Clone(n.DriverInfo)
			n.DriverInfo["password"] = b.key.Seal(seal.Label{Kind: seal.DriverInfo, Of: n.UUID, Field: "password"}, "p")
		}}, true},
	} {
		told := b.change(func(ctx context.Context, tx *store.Tx, n *store.Node) error {
			for _, write := range c.writes {
				write(n)
				if err := tx.UpdateNode(ctx, n); err != nil {
					return err
				}
			}
			return nil
		})
		if told != c.told {
			t.Errorf("%s: the rack is told: %v, want %v", c.name, told, c.told)
		}
	}
	// A node that the transaction has not read itself: nobody knows what its row holds.
	_, n := b.document()
	if !b.change(func(ctx context.Context, tx *store.Tx, _ *store.Node) error { return tx.UpdateNode(ctx, n) }) {
		t.Error("the rack is not told of a node that was read outside of the transaction")
	}
}
