package ipmi

import (
	"encoding/json"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// What a newer program, or the driver of another interface, keeps of a node stays when this one writes its own.
func TestWhatOthersKeepStays(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", map[string]any{fieldForce: true})
	n.Kept = json.RawMessage(`{"ipmi_boot_changes":4,"ipmi_boot_device":"pxe","ipmi_of_a_newer_rackd":{"a":1},"boot_again_changes":2,"boot_again":"disk"}`)
	if err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, n, driver.BootDisk, true); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(d.Kept(n), &got); err != nil {
		t.Fatal(err)
	}
	if got["ipmi_boot_device"] != "disk" || got["ipmi_boot_changes"] != 5.0 {
		t.Errorf("kept %v", got)
	}
	for _, name := range []string{"ipmi_of_a_newer_rackd", "boot_again_changes", "boot_again"} {
		if got[name] == nil {
			t.Errorf("%s is lost: kept %v", name, got)
		}
	}
}

// Of a rackd that was cut off between a write and its report, and of the one that went on, the one that went on counts.
func TestARackdThatWasCutOffKnowsNoBetter(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	first, second, n := newDriver(t, Options{}), newDriver(t, Options{}), r.node("s3cret-pass", map[string]any{fieldForce: true})
	f := &drivertest.Fence{}
	for _, device := range []driver.BootDevice{driver.BootPXE, driver.BootDisk, driver.BootPXE} { // never reported
		if err := first.SetBootDevice(t.Context(), f, n, device, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := second.SetBootDevice(t.Context(), f, n, driver.BootDisk, true); err != nil {
		t.Fatal(err)
	}
	told := *n
	told.Kept = second.Kept(n)
	if got, err := first.BootDevice(t.Context(), &told); err != nil || got.Device != "disk" {
		t.Errorf("the first rackd says %+v, %v: want disk, as the node's document says since", got, err)
	}
}
