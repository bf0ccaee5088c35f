package ipmisim

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	ipmidriver "github.com/ironyard/ironyard/rackd/driver/ipmi"
)

// What the driver tells of a BMC's addresses and inventory is what `ipmitool lan print` and `ipmitool fru print` tell.
func TestBMCInfo(t *testing.T) {
	t.Parallel()
	needs(t, "ipmi_sim", "ipmitool")
	text := func(s string) (types.TypeLength, []byte) { return types.TypeLength(0xC0 | len(s)), []byte(s) }
	product, board := &types.FRUProductInfoArea{FormatVersion: 1, LanguageCode: 25}, &types.FRUBoardInfoArea{FormatVersion: 1, LanguageCode: 25}
	product.ManufacturerTypeLength, product.Manufacturer = text("Contoso Ltd")
	product.NameTypeLength, product.Name = text("Rack Server 7")
	product.SerialNumberTypeLength, product.SerialNumber = text("SN-0042   ")
	board.ManufacturerTypeLength, board.Manufacturer = text("Board Maker")
	board.ProductNameTypeLength, board.ProductName = text("Mainboard")
	board.SerialNumberTypeLength, board.SerialNumber = text("B-7")
	for name, c := range map[string]struct {
		fru                                        *types.FRU
		manufacturer, productName, serial, printed string
	}{
		"product and board": {&types.FRU{BoardInfoArea: board, ProductInfoArea: product}, "Contoso Ltd", "Rack Server 7", "SN-0042", "Product"},
		"a board alone":     {&types.FRU{BoardInfoArea: board}, "Board Maker", "Mainboard", "B-7", "Board"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := types.PackFRUInventory(c.fru)
			if err != nil {
				t.Fatal(err)
			}
			var data strings.Builder
			for _, b := range raw {
				fmt.Fprintf(&data, " 0x%02x", b)
			}
			at, dir := free(t), t.TempDir()
			b, err := Start(context.Background(), Config{Dir: dir, Address: at, Emulation: fmt.Sprintf("mc_add_fru_data 0x20 0 %d data%s\n", len(raw), data.String()),
				LAN: map[string]string{"ip_addr": "192.0.2.7", "ip_addr_src": "static", "mac_addr": "52:54:00:12:34:56", "subnet_mask": "255.255.255.0", "default_gw_ip_addr": "192.0.2.1",
					"default_gw_mac_addr": "52:54:00:00:00:01", "backup_gw_ip_addr": "0.0.0.0", "backup_gw_mac_addr": "00:00:00:00:00:00"},
				Users: []User{{"admin", "s3cret-pass", "admin"}}}, &computer{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := b.Stop(); err != nil {
					t.Error(err)
				}
			})
			secret := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(secret, []byte("s3cret-pass"), 0o600); err != nil {
				t.Fatal(err)
			}
			ipmitool := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "ipmitool", append(strings.Fields("-I lanplus -C 3 -H 127.0.0.1 -U admin -f "+secret+" -p "+strconv.Itoa(int(at.Port()))), args...)...)
				out, err := cmd.Output() // what it does not find in an inventory is an exit code of its own
				if len(out) == 0 {
					t.Fatalf("ipmitool %v: %v", args, err)
				}
				return string(out)
			}
			printed := func(out, field string) string {
				t.Helper()
				m := regexp.MustCompile(`(?m)^\s*` + field + `\s*: (.*)$`).FindStringSubmatch(out)
				if m == nil {
					t.Fatalf("ipmitool tells no %s:\n%s", field, out)
				}
				return strings.TrimSpace(m[1])
			}
			lan, fru := ipmitool("lan", "print", "1"), ipmitool("fru", "print", "0")
			v := ipmidriver.Vendor{Driver: newDriver(t)}
			var got map[string]any
			for _, m := range v.VendorMethods() {
				if m.Name != "get_bmc_info" {
					continue
				}
				n := nodeAt(at.Port(), "s3cret-pass", nil)
				if err := m.Check(n, map[string]any{"x": 1}); err == nil {
					t.Error("an argument that the method does not know is taken")
				}
				told, err := m.Call(t.Context(), nil, n, nil)
				if err != nil {
					t.Fatal(err)
				}
				sent, err := json.Marshal(told)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(sent, &got); err != nil {
					t.Fatal(err)
				}
			}
			vendor, _ := got["system_vendor"].(map[string]any)
			for what, c := range map[string]struct{ got, judge, want any }{
				"address":      {got["bmc_address"], printed(lan, "IP Address"), "192.0.2.7"},
				"MAC":          {got["bmc_mac"], printed(lan, "MAC Address"), "52:54:00:12:34:56"},
				"IPv6":         {got["bmc_v6address"], "", ""},
				"manufacturer": {vendor["manufacturer"], printed(fru, c.printed+" (?:Mfg|Manufacturer)"), c.manufacturer},
				"product":      {vendor["product_name"], printed(fru, c.printed+" (?:Name|Product)"), c.productName},
				"serial":       {vendor["serial_number"], printed(fru, c.printed+" Serial"), c.serial},
			} {
				if c.got != c.want || c.judge != c.want {
					t.Errorf("%s: the driver tells %q, ipmitool %q, want %q", what, c.got, c.judge, c.want)
				}
			}
		})
	}
}
