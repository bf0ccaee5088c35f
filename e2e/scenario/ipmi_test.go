package scenario

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/ipmisim"
	"github.com/ironyard/ironyard/protocol/provision"
)

// byIPMI has a machine driven by its BMC of IPMI, OpenIPMI's simulator. The machine is the one that its Redfish BMC shows.
func byIPMI(t *testing.T, m *operator.Machine) {
	t.Helper()
	machine, err := theRack.Machine(m.Name)
	if err != nil {
		t.Fatal(err)
	}
	m.Driver = "ipmi"
	maps.DeleteFunc(m.DriverInfo, func(field string, _ any) bool { return strings.HasPrefix(field, "redfish_") })
	maps.Copy(m.DriverInfo, ipmisim.DriverInfo(machine, ipmisim.Described(machine)))
	m.DriverInfo["ipmi_force_boot_device"] = m.Name == "uefi-0"
}

// A machine of each firmware by IPMI: powered off → instance → undeployed. The simulator remembers a boot device; that of uefi-0 is
// told before each start all the same. make test deploys, rescues and undeploys one (TestRescue).
func TestDeployByIPMI(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	for _, name := range []string{"bios-0", "uefi-0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 8*time.Minute)
			o := theRack.Operator
			id := enrolled(ctx, t, name, func(m *operator.Machine) { byIPMI(t, m) })
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
