package ipmi

import (
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// VirtualBMC shows the boot device that a machine was started with for as long as it runs, and takes a new one for the next start. With
// ipmi_force_boot_device such a device is told again before the start, by any rackd. Without that field it is refused as not kept.
func TestABootDeviceBeneathARunningMachine(t *testing.T) {
	t.Parallel()
	for _, lasts := range []bool{false, true} {
		r := newRig(t, "s3cret-pass")
		d, n, f := newDriver(t, Options{}), r.node("s3cret-pass", map[string]any{fieldForce: true}), &drivertest.Fence{}
		power := func(d *Driver, target driver.PowerState) {
			t.Helper()
			if err := d.SetPower(t.Context(), f, n, target); err != nil {
				t.Fatal(err)
			}
		}
		power(d, driver.PowerOff)
		if err := d.SetBootDevice(t.Context(), f, n, driver.BootDisk, true); err != nil {
			t.Fatal(err)
		}
		power(d, driver.PowerOn)
		r.set(func() { // what it is told while the machine runs, it does not show
			r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
				on, _ := r.chassis.PowerState(t.Context())
				return nil, 0, q.NetFn == netFnChassis && q.Command == cmdSetBoot && on
			}
		})
		plain := r.node("s3cret-pass", nil)
		if err := d.SetBootDevice(t.Context(), f, plain, driver.BootPXE, false); err == nil || !strings.Contains(err.Error(), errNotKept.Error()) {
			t.Errorf("without the field: %v", err)
		}
		if err := d.SetBootDevice(t.Context(), f, n, driver.BootPXE, lasts); err != nil {
			t.Fatal(err)
		}
		if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != "pxe" || is.Persistent == nil || *is.Persistent != lasts {
			t.Errorf("while it runs: %+v, %v", is, err)
		}
		n.Kept = d.Kept(n)
		other := newDriver(t, Options{}) // another rackd goes on
		boots := func(want types.BootDeviceSelector) {
			t.Helper()
			power(other, driver.PowerOff)
			power(other, driver.PowerOn)
			r.chassis.set(func() {
				if got := r.chassis.flags.BootDeviceSelector; got != want {
					t.Errorf("lasts %t: it starts with %v, want %v", lasts, got, want)
				}
			})
		}
		boots(types.BootDeviceSelectorForcePXE)
		if lasts {
			boots(types.BootDeviceSelectorForcePXE)
		} else {
			boots(types.BootDeviceSelectorForceHardDrive)
		}
		// One start that is taken back before it comes.
		if err := other.SetBootDevice(t.Context(), f, n, "cdrom", false); err != nil {
			t.Fatal(err)
		}
		if err := other.ClearOneStart(t.Context(), f, n); err != nil {
			t.Fatal(err)
		}
		if lasts {
			boots(types.BootDeviceSelectorForcePXE)
		} else {
			boots(types.BootDeviceSelectorForceHardDrive)
		}
	}
}
