package netup

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
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
		`{"links":[{"id":"a","type":"bond","ethernet_mac_address":"52:54:00:00:00:01"}]}`: "bond",
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

// Each address is an address of its own. A route is set once, by an address of its kind.
func TestGivenSettings(t *testing.T) {
	pre, addr := netip.MustParsePrefix, netip.MustParseAddr
	got := given(networkdata.Interface{MTU: 1400, DNS: []netip.Addr{addr("192.0.2.53")},
		Addresses: []netip.Prefix{pre("192.0.2.7/24"), pre("192.0.2.8/24"), pre("2001:db8::7/64")},
		Routes:    []networkdata.Route{{To: pre("0.0.0.0/0"), Via: addr("192.0.2.1")}, {To: pre("::/0"), Via: addr("2001:db8::1")}}})
	want := []settings{
		{addr: pre("192.0.2.7/24"), mtu: 1400, dns: []string{"192.0.2.53"}, routes: []route{{pre("0.0.0.0/0"), addr("192.0.2.1")}}},
		{addr: pre("192.0.2.8/24"), mtu: 1400},
		{addr: pre("2001:db8::7/64"), mtu: 1400, routes: []route{{pre("::/0"), addr("2001:db8::1")}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
