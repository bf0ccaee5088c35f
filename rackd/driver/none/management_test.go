package none

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

var (
	_ driver.Management     = Management{}
	_ driver.FixedBootOrder = Management{}
)

// A machine whose boot order is fixed takes the devices of the order, and no other.
func TestManagement(t *testing.T) {
	n, m, f := &node.Document{UUID: "u-1", Name: "web1", Driver: "snmp"}, Management{}, &drivertest.Fence{}
	list, err := m.SupportedBootDevices(t.Context(), n)
	if err != nil || len(list) != 2 || list[0] != driver.BootPXE || list[1] != driver.BootDisk {
		t.Errorf("boot devices %v, %v", list, err)
	}
	for _, d := range list {
		if err := m.SetBootDevice(t.Context(), f, n, d, false); err != nil {
			t.Error(err)
		}
	}
	if is, err := m.BootDevice(t.Context(), n); is.Device != "pxe" || is.Persistent == nil || !*is.Persistent || err != nil {
		t.Errorf("boot device %+v, %v", is, err)
	}
	err = m.SetBootDevice(t.Context(), f, n, "cdrom", false)
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Invalid boot device cdrom specified, supported are pxe, disk") || !strings.Contains(err.Error(), "web1") {
		t.Errorf("cdrom: %v", err)
	}
	f.Lose()
	if err := m.SetBootDevice(t.Context(), f, n, driver.BootDisk, false); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("without the node: %v", err)
	}
	_, mode := m.BootMode(t.Context(), n)
	_, identity := m.Identity(t.Context(), n)
	for what, err := range map[string]error{"boot mode": mode, "identity": identity, "set boot mode": m.SetBootMode(t.Context(), f, n, "uefi"), "NMI": m.InjectNMI(t.Context(), f, n)} {
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "Driver snmp does not support") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
