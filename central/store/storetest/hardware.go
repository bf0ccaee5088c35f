package storetest

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

func hardwareItems(t *testing.T, s *store.Store) {
	n, other := NewNode("n"), NewNode("other")
	Insert(t, s, n, other)
	set := func(id string, kind store.HardwareKind, items ...*store.HardwareItem) {
		t.Helper()
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.SetHardware(ctx, id, kind, items) })
	}
	get := func(id string, kind store.HardwareKind) map[string]*store.HardwareItem {
		t.Helper()
		list, err := s.Hardware(t.Context(), id, kind)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]*store.HardwareItem{}
		for i, item := range list {
			out[item.Name] = item
			expect(t, "order of "+item.Name, i == 0 || list[i-1].Name < item.Name, true)
		}
		return out
	}
	set(n.UUID, store.BIOSSetting, &store.HardwareItem{Name: "z", Data: `1`}, &store.HardwareItem{Name: "a", Data: `1`}, &store.HardwareItem{Name: "gone", Data: `1`})
	set(n.UUID, store.FirmwareComponent, &store.HardwareItem{Name: "bmc", Initial: "1.0", Data: `"1.0"`})
	set(other.UUID, store.BIOSSetting, &store.HardwareItem{Name: "gone", Data: `1`})
	set(n.UUID, store.BIOSSetting, &store.HardwareItem{Name: "z", Data: `1`}, &store.HardwareItem{Name: "a", Data: `2`}, &store.HardwareItem{Name: "new", Data: `3`})
	set(n.UUID, store.FirmwareComponent, &store.HardwareItem{Name: "bmc", Initial: "2.0", Data: `"2.0"`})
	got := get(n.UUID, store.BIOSSetting)
	expect(t, "settings", len(got), 3)
	expect(t, "unchanged setting has no update", got["z"].UpdatedAt.IsZero() && !got["z"].CreatedAt.IsZero(), true)
	expect(t, "changed setting", got["a"].Data+" "+map[bool]string{true: "updated"}[!got["a"].UpdatedAt.IsZero()], "2 updated")
	expect(t, "new setting", got["new"].Data, "3")
	bmc := get(n.UUID, store.FirmwareComponent)["bmc"]
	expect(t, "first version and last", bmc.Initial+bmc.Data, `1.0"2.0"`)
	expect(t, "another node's settings", len(get(other.UUID, store.BIOSSetting)), 1)
	set(n.UUID, store.BIOSSetting)
	expect(t, "after clearing", len(get(n.UUID, store.BIOSSetting)), 0)
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteNode(ctx, n.UUID) })
	expect(t, "after the node's deletion", len(get(n.UUID, store.FirmwareComponent)), 0)
}
