package netup

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/networkdata"
)

func TestReadGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network_data.json")
	if list, err := ReadGiven(path); list != nil || err != nil {
		t.Errorf("without a file: %v, %v", list, err)
	}
	for text, wants := range map[string]string{
		`{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"}],"networks":[{"id":"n","link":"a","type":"ipv4","ip_address":"192.0.2.7/24","gateway":"192.0.2.1"}]}`: "",
		`{}`: "names no link",
		`{"links":[{"id":"a","type":"bond","ethernet_mac_address":"52:54:00:00:00:01"}]}`: "bond_mode",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := ReadGiven(path)
		if wants == "" && (err != nil || len(list) != 1) || wants != "" && (err == nil || !strings.Contains(err.Error(), wants)) {
			t.Errorf("%s: %v, %v", text, list, err)
		}
	}
}

// Routes of IPv4 that come with leases are set with each. Others are set once.
func TestGivenRoutes(t *testing.T) {
	pre, addr := netip.MustParsePrefix, netip.MustParseAddr
	four, six := networkdata.Route{To: pre("0.0.0.0/0"), Via: addr("192.0.2.1")}, networkdata.Route{To: pre("::/0"), Via: addr("2001:db8::1")}
	i := made{Interface: networkdata.Interface{DHCP: true, Addresses: []netip.Prefix{pre("2001:db8::7/64")}, Routes: []networkdata.Route{four, six}}}
	if now, later := i.routes(); !slices.Equal(now, []route{{six.To, six.Via}}) || !slices.Equal(later, []route{{four.To, four.Via}}) {
		t.Errorf("with a lease: %v, then %v", now, later)
	}
	i.Addresses = append(i.Addresses, pre("192.0.2.7/24"))
	if now, later := i.routes(); len(now) != 2 || later != nil {
		t.Errorf("with an address: %v, then %v", now, later)
	}
}
