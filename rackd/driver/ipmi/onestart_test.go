package ipmi

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A device for one start counts until the machine has been told to start: an order that is lost or refused uses nothing up.
func TestADeviceForOneStartOutlivesALostOrder(t *testing.T) {
	for name, code := range map[string]types.CompletionCode{"lost": 0xC3, "refused": 0xFF} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "s3cret-pass")
			d, n, f := newDriver(t, Options{}), r.node("s3cret-pass", map[string]any{fieldForce: true}), &drivertest.Fence{}
			for device, persistent := range map[driver.BootDevice]bool{driver.BootDisk: true} { // what an instance left
				if err := d.SetBootDevice(t.Context(), f, n, device, persistent); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.SetBootDevice(t.Context(), f, n, driver.BootPXE, false); err != nil { // for the ramdisk
				t.Fatal(err)
			}
			var fails atomic.Int32
			fails.Store(1)
			r.set(func() {
				r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
					return nil, code, q.NetFn == netFnChassis && q.Command == cmdChassisControl && fails.Add(-1) == 0
				}
			})
			if err := d.SetPower(t.Context(), f, n, driver.PowerOn); err == nil || name == "lost" && !errors.Is(err, driver.ErrUnknown) {
				t.Fatalf("the order: %v", err)
			}
			if err := d.SetPower(t.Context(), f, n, driver.PowerOn); err != nil {
				t.Fatal(err)
			}
			r.chassis.set(func() {
				if got := r.chassis.flags.BootDeviceSelector; got != types.BootDeviceSelectorForcePXE {
					t.Errorf("the machine starts from %v, want its network: the ramdisk was asked for", got)
				}
			})
		})
	}
}
