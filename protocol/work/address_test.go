package work

import (
	"net/netip"
	"slices"
	"testing"
)

// An address that is told of again and again stays, whatever else is told in between. Each list may be the one that a checkpoint has.
func TestAnAddressThatIsToldAgainStays(t *testing.T) {
	own := netip.MustParseAddr("10.0.0.1")
	b, isNew := Boot{}.WithAddress(own)
	if !isNew {
		t.Error("the first address is not new")
	}
	for i := range byte(3 * maxAddresses) {
		other := netip.AddrFrom4([4]byte{10, 0, 1, i})
		if b, isNew = b.WithAddress(other); !isNew || !slices.Contains(b.Addresses, own) || !slices.Contains(b.Addresses, other) || len(b.Addresses) > maxAddresses {
			t.Fatalf("after %s: new %v, %v", other, isNew, b.Addresses)
		}
		if b, isNew = b.WithAddress(own); isNew || !slices.Contains(b.Addresses, other) {
			t.Fatalf("after its own once more: new %v, %v", isNew, b.Addresses)
		}
	}
}
