package redfish

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// The iSCSI disk goes to the front of the boot order once firmware shows it, for good. What is so already is not written.
func TestISCSIDiskIsBootedFirst(t *testing.T) {
	const options = redfishtest.System + "/BootOptions"
	option := map[string]any{"@odata.id": options + "/Boot0004", "BootOptionReference": "Boot0004", "UefiDevicePath": "PciRoot(0x0)/Pci(0x2,0x0)"}
	b := redfishtest.Start(t, "Dell", redfishtest.Tree{
		options: redfishtest.Links(options+"/Boot0001", options+"/Boot0004"),
		options + "/Boot0001": {"@odata.id": options + "/Boot0001", "BootOptionReference": "Boot0001",
			"UefiDevicePath": "PciRoot(0x0)/Pci(0x2,0x0)/MAC(525400000001,0x1)"},
		options + "/Boot0004": option,
	})
	b.Do(func() {
		boot, _ := b.At[redfishtest.System]["Boot"].(map[string]any)
		if boot == nil {
			boot = map[string]any{}
			b.At[redfishtest.System]["Boot"] = boot
		}
		boot["BootOrder"], boot["BootOptions"] = []any{"Boot0001", "Boot0004"}, redfishtest.Link(options)
	})
	n := &node.Document{UUID: "u", BootSet: string(driver.BootISCSI), DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
	d := newDriver(t, Options{})
	set := func(persistent bool) error {
		return d.SetBootDevice(t.Context(), &drivertest.Fence{}, n, driver.BootISCSI, persistent)
	}
	if err := set(true); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "No UEFI iSCSI bootable device found") || len(b.Written()) != 0 {
		t.Errorf("before the firmware has logged in: %v, writes %q", err, b.Written())
	}
	b.Do(func() {
		option["UefiDevicePath"] = "PciRoot(0x0)/MAC(525400000001,0x1)/iSCSI(iqn.2026-11.org.example:v,0x1,0x0,None,None,None,TCP)"
	})
	if err := set(false); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("for one boot: %v", err)
	}
	for range 2 {
		if err := set(true); err != nil {
			t.Fatal(err)
		}
	}
	if w := b.Written(); len(w) != 1 || !strings.Contains(w[0], `"BootOrder":["Boot0004","Boot0001"]`) {
		t.Errorf("writes %q", w)
	}
	if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != string(driver.BootISCSI) || is.Persistent == nil || !*is.Persistent {
		t.Errorf("read back: %+v, %v", is, err)
	}
}
