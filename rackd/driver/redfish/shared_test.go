package redfish

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// A BMC of several machines has a console at one path. Whose it is it does not tell, so the tenant of the second machine does not get
// what may be the screen and the keyboard of the first.
func TestOneMachinesConsoleIsNotAnothers(t *testing.T) {
	two := "/redfish/v1/Systems/2"
	for _, told := range []string{"by the manager", "by the systems"} {
		for _, kind := range []string{"graphical", "serial"} {
			t.Run(kind+" "+told, func(t *testing.T) {
				b, p := openBMC(t), &port{}
				b.At[two] = map[string]any{"@odata.id": two, "Id": "2", "PowerState": "On", "Boot": map[string]any{"BootSourceOverrideTarget": "None"}, "GraphicalConsole": kvm(), "Links": map[string]any{"ManagedBy": []any{link(managerAt)}}}
				redfishtest.Merge(b.At[redfishtest.System], map[string]any{"Boot": map[string]any{"BootSourceOverrideTarget": "None"}})
				b.At["/redfish/v1/Systems"] = map[string]any{"@odata.id": "/redfish/v1/Systems", "Members": []any{link(redfishtest.System), link(two)}}
				if told == "by the manager" {
					redfishtest.Merge(b.At[managerAt], map[string]any{"Links": map[string]any{"ManagerForServers": []any{link(redfishtest.System), link(two)}}})
				}
				n := consoleNode(b, map[string]any{fieldSystem: two})
				var err error
				if kind == "graphical" {
					withKVM(t, b, p, greeting)
					err = Graphical{newDriver(t, Options{})}.StartConsole(t.Context(), &drivertest.Fence{}, n)
				} else {
					withSocket(t, b, "/console0", p)
					err = Console{newDriver(t, Options{})}.StartConsole(t.Context(), &drivertest.Fence{}, n)
				}
				if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "BMC of other machines too") {
					t.Errorf("the second machine's console: %v", err)
				}
			})
		}
	}
}
