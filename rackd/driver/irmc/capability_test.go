package irmc

import (
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

var _ driver.ISCSIBooter = Interface{}

// A machine whose adapter takes an iSCSI target has the capability that the storage interface cinder asks for.
func TestInspectionFindsISCSIBoot(t *testing.T) {
	const chassis, adapters = "/redfish/v1/Chassis/1", "/redfish/v1/Chassis/1/NetworkAdapters"
	const functions = adapters + "/1/NetworkDeviceFunctions"
	for name, c := range map[string]struct {
		function map[string]any
		want     any
	}{
		"takes one": {map[string]any{"@odata.id": functions + "/1", "iSCSIBoot": map[string]any{"PrimaryTargetName": ""}}, "true"},
		"has none":  {map[string]any{"@odata.id": functions + "/1"}, nil},
	} {
		b := redfishtest.Start(t, "Fujitsu", redfishtest.Tree{
			chassis:          {"@odata.id": chassis, "NetworkAdapters": redfishtest.Link(adapters)},
			adapters:         redfishtest.Links(adapters + "/1"),
			adapters + "/1":  {"NetworkDeviceFunctions": redfishtest.Link(functions)},
			functions:        redfishtest.Links(functions + "/1"),
			functions + "/1": c.function,
		})
		r := drivertest.NewRig()
		r.Node.DriverInfo = map[string]any{fieldAddress: b.Host(), fieldPort: b.Port(), fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}
		if out, err := stepOf(t, newInterface(t, lan{}), r).Run(t.Context(), r.Task(networkboot.IPXE())); err != nil || out != driver.Done() {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		_, plugin := found(t, r)
		able, _ := plugin["capabilities"].(map[string]any)
		if able["iscsi_boot"] != c.want {
			t.Errorf("%s: it tells %v", name, plugin)
		}
	}
}
