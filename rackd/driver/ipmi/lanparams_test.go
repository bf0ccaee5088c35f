package ipmi

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"
)

// What a BMC tells of itself is taken if it is whole, and is empty where the BMC has no such thing. Answers without end or sense end
// the call.
func TestBMCInfoOfHostileBMCs(t *testing.T) {
	v6 := func(set, source byte, address string, status byte) []byte {
		a := netip.MustParseAddr(address).As16()
		return append(append([]byte{0x11, set, source}, a[:]...), 64, status)
	}
	usual := map[byte][]byte{lanAddress: {0x11, 192, 0, 2, 7}, lanMAC: {0x11, 0x52, 0x54, 0, 1, 2, 3}, lanStatus6: {0x11, 2, 1, 3}}
	text := func(s string) (types.TypeLength, []byte) { return types.TypeLength(0xC0 | len(s)), []byte(s) }
	product := &types.FRUProductInfoArea{FormatVersion: 1, LanguageCode: 25}
	product.ManufacturerTypeLength, product.Manufacturer = text("Contoso\x1b[2J")
	product.NameTypeLength, product.Name = text("Server")
	product.SerialNumberTypeLength, product.SerialNumber = text("42")
	fru, err := types.PackFRUInventory(&types.FRU{ProductInfoArea: product})
	if err != nil {
		t.Fatal(err)
	}
	garbled := bytes.Clone(fru)
	garbled[12] ^= 0xFF
	contoso := systemVendor{"Contoso[2J", "Server", "42"}
	for name, c := range map[string]struct {
		lan   map[byte][]byte // by parameter
		sets  map[byte][][]byte
		fru   []byte
		words bool
		code  types.CompletionCode // of all
		read  func(data []byte) []byte
		want  bmcInfo
		says  string // of the error
	}{
		"all": {lan: usual, fru: fru, sets: map[byte][][]byte{lanStatic6: {v6(0, 0x80, "fe80::1", 0), v6(1, 0x80, "2001:db8::1", 0)}},
			want: bmcInfo{"192.0.2.7", "2001:db8::1", "52:54:00:01:02:03", contoso}},
		"by words": {lan: usual, fru: fru, words: true, sets: map[byte][][]byte{lanStatic6: {v6(0, 0x80, "fe80::1", 0)}}, want: bmcInfo{"192.0.2.7", "fe80::1", "52:54:00:01:02:03", contoso}},
		"disabled or not in use": {lan: usual, sets: map[byte][][]byte{lanStatic6: {v6(0, 0, "2001:db8::1", 0), v6(1, 0x80, "2001:db8::2", 1)}, lanDynamic6: {v6(0, 1, "2001:db8::3", 0)}},
			want: bmcInfo{Address: "192.0.2.7", AddressV6: "2001:db8::3", MAC: "52:54:00:01:02:03"}},
		"no LAN channel, no inventory": {code: 0xCC},
		"no such commands":             {code: 0xC1},
		"an address that none has":     {lan: map[byte][]byte{lanAddress: {0x11, 0, 0, 0, 0}, lanMAC: {0x11, 0, 0, 0, 0, 0, 0}}},
		"half an address":              {lan: map[byte][]byte{lanAddress: {0x11, 192, 0}}, says: "parameter 3 of its LAN channel"},
		"half a MAC address":           {lan: map[byte][]byte{lanMAC: {0x11, 1, 2}}, says: "parameter 5 of its LAN channel"},
		"half an IPv6 address":         {lan: usual, sets: map[byte][][]byte{lanStatic6: {{0x11, 0, 0x80, 0x20}}}, says: "parameter 56 of its LAN channel"},
		"as many addresses as fit":     {lan: map[byte][]byte{lanStatus6: {0x11, 255, 255, 3}}, sets: map[byte][][]byte{lanStatic6: {v6(0, 0, "::", 0)}, lanDynamic6: {v6(0, 0, "::", 0)}}},
		"a garbled inventory":          {fru: garbled},
		"half an inventory":            {fru: fru[:10]},
		"an empty inventory":           {fru: []byte{}},
		"pieces of nothing":            {fru: fru, read: func([]byte) []byte { return []byte{0} }, says: "a piece of its inventory"},
		"a byte at a time":             {fru: fru, read: func(d []byte) []byte { return []byte{1, d[1]} }, want: bmcInfo{Vendor: contoso}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "s3cret-pass")
			asked := 0
			r.set(func() {
				r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
					switch {
					case q.NetFn != netFnTransport && q.NetFn != netFnStorage:
						return nil, 0, false
					case c.code != 0:
						return nil, c.code, true
					}
					r.set(func() { asked++ })
					switch {
					case q.NetFn == netFnTransport && q.Command == cmdLANConfig:
						parameter, set := q.Data[1], int(q.Data[2])
						if list := c.sets[parameter]; list != nil {
							return list[min(set, len(list)-1)], 0, true
						}
						if data := c.lan[parameter]; data != nil {
							return data, 0, true
						}
						return nil, 0x80, true
					case q.Command == cmdInventoryInfo && c.fru != nil:
						flag := byte(0)
						if c.words {
							flag = 1
						}
						return []byte{byte(len(c.fru)), byte(len(c.fru) >> 8), flag}, 0, true
					case q.Command == cmdReadInventory && c.fru != nil:
						from, n := int(q.Data[1])|int(q.Data[2])<<8, int(q.Data[3])
						if c.words {
							from, n = 2*from, 2*n
						}
						if from >= len(c.fru) {
							return nil, 0xC9, true
						}
						data := append([]byte{q.Data[3]}, c.fru[from:min(len(c.fru), from+n)]...)
						if c.read != nil {
							data = c.read(data)
						}
						return data, 0, true
					}
					return nil, 0xCB, true
				}
			})
			got, err := newDriver(t, Options{}).info(t.Context(), r.node("s3cret-pass", nil))
			switch {
			case c.says != "":
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want an error with %q", err, c.says)
				}
			case err != nil:
				t.Error(err)
			case got != c.want:
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if r.set(func() {}); asked > 2*mostAddresses6+3+len(fru)+8+inventoryHeader {
				t.Errorf("the BMC was asked %d times", asked)
			}
		})
	}
}
