package mediaboot

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A tenant who writes a node's network_data gives the ramdisk of its cleaning the address that rackd has in the machines' network: no other
// machine would find rackd then.
func TestARamdiskTakesNoAddressOfRackd(t *testing.T) {
	own := func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("fd00::2")}, nil
	}
	unknown := func() ([]netip.Addr, error) { return nil, errors.New("no such thing") }
	given := func(kind, address string) *node.Document {
		return &node.Document{UUID: "x", NetworkData: []byte(`{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"}],
			"networks":[{"id":"n","link":"a","type":"` + kind + `","ip_address":"` + address + `"}],"services":[]}`)}
	}
	for address, kind := range map[string]string{"10.77.0.2/24": "ipv4", "fd00::2/64": "ipv6", "fd00:0:0::0002/64": "ipv6"} {
		if err := checkNetwork(given(kind, address), own); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "is that of this rackd") {
			t.Errorf("%s: %v", address, err)
		}
		if err := checkNetwork(given(kind, address), unknown); err != nil {
			t.Errorf("%s, where the kernel tells no address: %v", address, err)
		}
	}
	for address, kind := range map[string]string{"10.77.0.3/24": "ipv4", "fd00::3/64": "ipv6"} {
		if err := checkNetwork(given(kind, address), own); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
