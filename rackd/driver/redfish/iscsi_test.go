package redfish

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// adapters is a machine with two functions of a network adapter. staged: changes go into settings objects.
func adapters(t *testing.T, staged bool) *redfishtest.BMC {
	const chassis = "/redfish/v1/Chassis/1"
	const functions = chassis + "/NetworkAdapters/NIC.1/NetworkDeviceFunctions"
	tree := redfishtest.Tree{
		chassis:                            {"@odata.id": chassis, "NetworkAdapters": redfishtest.Link(chassis + "/NetworkAdapters")},
		chassis + "/NetworkAdapters":       redfishtest.Links(chassis+"/NetworkAdapters/NIC.1", chassis+"/NetworkAdapters/Gone"),
		chassis + "/NetworkAdapters/NIC.1": {"NetworkDeviceFunctions": redfishtest.Link(functions)},
		functions:                          redfishtest.Links(functions+"/1", functions+"/2"),
	}
	for at, mac := range map[string]string{functions + "/1": "52:54:00:00:00:01", functions + "/2": "52:54:00:00:00:02"} {
		f := map[string]any{"@odata.id": at, "NetDevFuncType": "Ethernet", "BootMode": "PXE", "Ethernet": map[string]any{"MACAddress": strings.ToUpper(mac)},
			"iSCSIBoot": map[string]any{"PrimaryTargetName": "", "PrimaryTargetIPAddress": "0.0.0.0", "PrimaryTargetTCPPort": 3260, "PrimaryLUN": 0, "InitiatorName": "iqn.1988-11.com.dell:x"}}
		if staged {
			f["@Redfish.Settings"] = map[string]any{"SettingsObject": redfishtest.Link(at + "/Settings"), "SupportedApplyTimes": []any{"Immediate", "OnReset"}}
			tree[at+"/Settings"] = map[string]any{"@odata.id": at + "/Settings", "iSCSIBoot": map[string]any{}}
		}
		tree[at] = f
	}
	return redfishtest.Start(t, "Dell", tree)
}

func TestISCSIConformance(t *testing.T) {
	for name, staged := range map[string]bool{"at once": false, "by a settings object": true} {
		t.Run(name, func(t *testing.T) {
			drivertest.ISCSIConformance(t, func(t *testing.T) *drivertest.ISCSIMachine {
				b := adapters(t, staged)
				m := b.Machine(nil, nil, func(password string) map[string]any {
					return map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: password, fieldVerifyCA: b.CA}
				})
				return &drivertest.ISCSIMachine{Machine: m, Booter: newDriver(t, Options{}), Adapters: 2}
			})
		})
	}
}

// Of a node with ports, only the functions with their addresses get a target.
func TestOnlyAdaptersOfPortsBootByISCSI(t *testing.T) {
	b := adapters(t, true)
	n := &node.Document{UUID: "u", Ports: []node.Port{{Address: "52:54:00:00:00:02"}}, DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
	d := newDriver(t, Options{})
	target := driver.ISCSITarget{Host: "192.0.2.10", Port: 3261, IQN: "iqn.2010-10.org.example:v", LUN: 2, User: "chap", Secret: "pa55w0rd12"}
	if err := d.SetISCSIBoot(t.Context(), &drivertest.Fence{}, n, target); err != nil {
		t.Fatal(err)
	}
	w := b.Written()
	if len(w) != 1 || !strings.HasPrefix(w[0], "PATCH /redfish/v1/Chassis/1/NetworkAdapters/NIC.1/NetworkDeviceFunctions/2/Settings ") || !strings.Contains(w[0], `"ApplyTime":"OnReset"`) ||
		!strings.Contains(w[0], `"AuthenticationMethod":"CHAP"`) || !strings.Contains(w[0], `"PrimaryTargetTCPPort":3261`) {
		t.Errorf("writes: %v", w)
	}
}
