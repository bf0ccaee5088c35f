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

// A server with several cards asks with each of them, by both versions of IP. The address from which its agent calls may be the first of
// all, and no later one drives it out.
func TestAddressesOfManyCards(t *testing.T) {
	own := netip.MustParseAddr("10.0.0.1")
	b, _ := Boot{}.WithAddress(own)
	for card := range byte(8) {
		for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 1, card}), netip.AddrFrom16([16]byte{0: 0xfd, 15: card}), netip.AddrFrom16([16]byte{0: 0xfd, 8: 2, 15: card})} {
			b, _ = b.WithAddress(a)
		}
	}
	if !slices.Contains(b.Addresses, own) {
		t.Errorf("%s is not among %v", own, b.Addresses)
	}
}
