package ramdisk

import (
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// A rackd dies when the instance has started and before the bus knows. The next one does not switch the instance off, and gives it no
// other files, although others lie at their addresses by then.
func TestATakeoverLeavesTheInstanceRunning(t *testing.T) {
	for _, takeover := range []string{"after the start", "before the start"} {
		synctest.Test(t, func(t *testing.T) {
			r := drivertest.NewRig()
			r.SetPowerState(driver.PowerOn)
			r.Node.InstanceInfo = files
			step := open().DeploySteps(r.Node)[0]
			if takeover == "before the start" {
				r.Fail = func(call string) error {
					if call == "set_power" && len(r.Writes("boot")) > 0 {
						return driver.ErrUnreachable
					}
					return nil
				}
			}
			if _, err := step.Run(t.Context(), task(r, networkboot.IPXE())); (err != nil) != (r.Fail != nil) {
				t.Fatal(err)
			}
			r.Fail = func(call string) error {
				if call == "latest http://192.0.2.1/k" {
					t.Errorf("%s: the files are fetched once more, and may be others", takeover)
				}
				return nil
			}
			r.Observed = hardware.Observation{} // it died before it told
			before := len(r.Writes("power power off"))
			if _, err := step.Run(t.Context(), task(r, networkboot.IPXE())); err != nil {
				t.Fatal(err)
			}
			if n := len(r.Writes("power power off")); n != before || n != 1 {
				t.Errorf("%s: the machine was switched off %d times: %v", takeover, n, r.Log)
			}
			if len(r.Observed.InstanceFiles) != 2 {
				t.Errorf("%s: central is told of the files %v", takeover, r.Observed.InstanceFiles)
			}
			if is, err := task(r, networkboot.IPXE()).Hardware.Power().PowerState(t.Context(), r.Node); err != nil || is != driver.PowerOn {
				t.Errorf("%s: the machine is %s, %v", takeover, is, err)
			}
		})
	}
}
