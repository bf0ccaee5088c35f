package storetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// narrowWrites: a write says what has changed and leaves the rest, however it was
// changed, and also when it follows another of the same transaction.
func narrowWrites(t *testing.T, s *store.Store) {
	yes := true
	old := NewNode("n")
	old.Extra, old.AutomatedClean = map[string]any{"a": "b", "in": map[string]any{"side": 1.0}}, &yes
	Insert(t, s, old)
	type write func(*store.Tx, context.Context, *store.Node) error
	intent := func(tx *store.Tx, ctx context.Context, n *store.Node) error { return tx.UpdateNode(ctx, n) }
	observation := func(tx *store.Tx, ctx context.Context, n *store.Node) error { return tx.UpdateObservation(ctx, n) }
	for _, c := range []struct {
		name   string
		write  write
		change func(*store.Node)
	}{
		{"nothing", intent, func(*store.Node) {}},
		{"nothing observed", observation, func(*store.Node) {}},
		{"a text", intent, func(n *store.Node) { n.Description = "changed" }},
		{"an object in its place", intent, func(n *store.Node) { n.Extra["in"].(map[string]any)["side"] = 2.0 }},
		{"an object by its members", intent, func(n *store.Node) { n.Extra["c"] = "d" }},
		{"an object to nothing", intent, func(n *store.Node) { clear(n.Extra) }},
		{"a flag in its place", intent, func(n *store.Node) { *n.AutomatedClean = false }},
		{"a flag to nothing", intent, func(n *store.Node) { n.AutomatedClean = nil }},
		{"a state", intent, func(n *store.Node) { n.Accept(provision.Deploying, provision.Active, time.Unix(9, 0)) }},
		{"one observation", observation, func(n *store.Node) { n.BootMode = "uefi" }},
		{"many at once", intent, func(n *store.Node) {
			n.Name, n.Owner, n.Lessee, n.Shard, n.ResourceClass, n.InstanceName, n.ProtectedReason, n.RetiredReason, n.Description =
				"m", "o", "l", "s", "r", "i", "p", "t", "d"
			n.Protected, n.Retired = true, true
		}},
	} {
		var want *store.Node
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, old.UUID)
			if err != nil {
				return err
			}
			before := n.Revision
			n.DriverInfo = map[string]any{"round": c.name}
			if err := intent(tx, ctx, n); err != nil {
				return err
			}
			c.change(n)
			if err := c.write(tx, ctx, n); err != nil {
				return err
			}
			expect(t, c.name+": revision", n.Revision, before+2)
			want = n
			return nil
		})
		var got *store.Node // read as want was, for a write
		update(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
			got, err = tx.Node(ctx, old.UUID)
			return err
		})
		for _, n := range []*store.Node{got, want} {
			if len(n.Extra) == 0 {
				n.Extra = nil
			}
		}
		if g, w := visible(got), visible(want); !reflect.DeepEqual(g, w) {
			t.Errorf("%s: the row holds\n%+v\nwant\n%+v", c.name, g, w)
		}
	}
}

// visible is what callers see of a node.
func visible(n *store.Node) map[string]any {
	out, v := map[string]any{}, reflect.ValueOf(*n)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			out[f.Name] = v.Field(i).Interface()
		}
	}
	return out
}
