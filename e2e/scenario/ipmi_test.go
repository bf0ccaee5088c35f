package scenario

import (
	"maps"
	"os"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/ipmisim"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A machine by IPMI, and in make hardware one of each firmware: powered off → instance → undeployed. The BMC is OpenIPMI's simulator.
// Each machine is the one that its Redfish BMC shows. The simulator remembers a boot device; that of uefi-0 is told before each
// start all the same.
func TestDeployByIPMI(t *testing.T) {
	names := []string{"bios-0"}
	if os.Getenv("IRONYARD_HARDWARE") != "" {
		names = append(names, "uefi-0")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 8*time.Minute)
			o := theRack.Operator
			machine, err := theRack.Machine(name)
			if err != nil {
				t.Fatal(err)
			}
			id := enrolled(ctx, t, name, func(m *operator.Machine) {
				m.Driver = "ipmi"
				maps.DeleteFunc(m.DriverInfo, func(field string, _ any) bool { return len(field) > 8 && field[:8] == "redfish_" })
				maps.Copy(m.DriverInfo, ipmisim.DriverInfo(machine, ipmisim.Described(machine)))
				m.DriverInfo["ipmi_force_boot_device"] = name == "uefi-0"
			})
			if err := o.MakeAvailable(ctx, id); err != nil {
				t.Fatal(err)
			}
			if err := o.SetImage(ctx, id, qcow2()); err != nil {
				t.Fatal(err)
			}
			deployed(ctx, t, id, name)
			if !theRack.Serving.Machines[name].On() {
				t.Error("the instance's machine is off")
			}
			if err := o.Ask(ctx, id, "deleted", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(ctx, id, provision.Available); err != nil {
				t.Fatal(err)
			}
			if err := o.WaitPower(ctx, id, "power off"); err != nil {
				t.Error(err)
			}
			if theRack.Serving.Machines[name].On() {
				t.Error("the undeployed machine is on")
			}
		})
	}
}
