package vbmc

import (
	"context"
	"net/http"
	"net/netip"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/idrac"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// The driver idrac boots an iDRAC's computer from the virtual drive, by a configuration profile. The standard's Cd is no boot source of it.
func TestIDRACBootsFromItsVirtualDrive(t *testing.T) {
	b, computer, address := serveEquipped(t)
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	m := idrac.Management{Management: redfishdriver.Management{Driver: d}}
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
		"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
	if err := m.SetMediaBoot(t.Context(), open{}, n, "cdrom", false); err == nil {
		t.Error("a BMC that is no iDRAC takes a profile")
	}
	b.Be(Dell)
	for _, persistent := range []bool{false, true} {
		for range 2 { // what is so already is not written again
			if err := m.SetMediaBoot(t.Context(), open{}, n, "cdrom", persistent); err != nil {
				t.Fatal(err)
			}
		}
		if device, once := computer.BootOverride(); device != Media || once == persistent {
			t.Errorf("for good %t: override %q, once %t", persistent, device, once)
		}
	}
	if got := len(b.Journal.Matching("ImportSystemConfiguration")); got != 2 {
		t.Errorf("%d imports: %+v", got, b.Journal.Writes())
	}
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Once"}}`, http.StatusBadRequest, "PropertyValueNotInList")
	refuses(t, b, "POST", importPath, `{"ImportBuffer":"<SystemConfiguration></SystemConfiguration>"}`, http.StatusBadRequest, "SYS405")
}
