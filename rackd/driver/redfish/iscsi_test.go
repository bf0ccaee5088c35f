package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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

// held are the settings of both functions at their next start.
func held(b *redfishtest.BMC, staged bool) (text string) {
	b.Do(func() {
		for path, at := range b.At {
			if strings.Contains(path, "/NetworkDeviceFunctions/") && strings.HasSuffix(path, "/Settings") == staged {
				text += fmt.Sprint(at["iSCSIBoot"])
			}
		}
	})
	return text
}

// stubborn has a BMC refuse settings of iSCSI that are empty or null.
func stubborn(b *redfishtest.BMC) {
	b.Write = func(w http.ResponseWriter, _ *http.Request, body map[string]any) bool {
		set, _ := body["iSCSIBoot"].(map[string]any)
		for name, value := range set {
			if value == nil || value == "" {
				redfishtest.Refuse(w, http.StatusBadRequest, "the value of "+name+" is not valid")
				return true
			}
		}
		return false
	}
}

func TestISCSIConformance(t *testing.T) {
	t.Parallel()
	for name, staged := range map[string]bool{"at once": false, "by a settings object": true} {
		t.Run(name, func(t *testing.T) {
			drivertest.ISCSIConformance(t, func(t *testing.T) *drivertest.ISCSIMachine {
				b := adapters(t, staged)
				m := b.Machine(nil, nil, func(password string) map[string]any {
					return map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: password, fieldVerifyCA: b.CA}
				})
				return &drivertest.ISCSIMachine{Machine: m, Booter: newDriver(t, Options{}), Adapters: 2, Holds: func() string { return held(b, staged) }, Stubborn: func() { stubborn(b) }}
			})
		})
	}
}

// An adapter is told the kind of its addresses where that changes. One that shows no kind is told none.
func TestKindOfAddresses(t *testing.T) {
	t.Parallel()
	for _, staged := range []bool{false, true} {
		for _, shows := range []bool{false, true} {
			b := adapters(t, staged)
			if shows {
				b.Do(func() {
					for _, at := range b.At {
						if boot, is := at["iSCSIBoot"].(map[string]any); is && boot["PrimaryTargetName"] != nil {
							boot["IPAddressType"] = "IPv4"
						}
					}
				})
			}
			n := &node.Document{UUID: "u", Ports: []node.Port{{Address: "52:54:00:00:00:02"}}, DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
			d := newDriver(t, Options{})
			var told []string
			for _, host := range []string{"192.0.2.10", "2001:db8::10", "192.0.2.11", "2001:db8::11"} {
				if err := d.SetISCSIBoot(t.Context(), &drivertest.Fence{}, n, driver.ISCSITarget{Host: host, Port: 3260, IQN: "iqn.2010-10.org.example:v"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.ClearISCSIBoot(t.Context(), &drivertest.Fence{}, n); err != nil {
				t.Fatal(err)
			}
			for _, w := range b.Written() {
				_, kind, _ := strings.Cut(w, `"IPAddressType":"`)
				kind, _, _ = strings.Cut(kind, `"`)
				told = append(told, kind)
			}
			want := map[bool][]string{true: {"", "IPv6", "IPv4", "IPv6", "IPv4"}, false: make([]string, 5)}[shows]
			if !slices.Equal(told, want) {
				t.Errorf("staged: %t, it shows a kind: %t: told %q, want %q", staged, shows, told, want)
			}
		}
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

// Two ways and the accounts of both sides go to the adapter in the standard's words. Where an error of the BMC has a secret in it, that
// is not told.
func TestMutualCHAPAndASecondPath(t *testing.T) {
	b := adapters(t, true)
	n := &node.Document{UUID: "u", Ports: []node.Port{{Address: "52:54:00:00:00:02"}}, DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
	target := driver.ISCSITarget{Host: "192.0.2.10", Port: 3260, IQN: "iqn.2010-10.org.example:v", User: "chap", Secret: "pa55w0rd1234", TargetUser: "them", TargetSecret: "th31r-s3cret",
		Second: driver.ISCSIPath{Host: "192.0.2.11", Port: 3262, IQN: "iqn.2010-10.org.example:w", LUN: 4}}
	if err := newDriver(t, Options{}).SetISCSIBoot(t.Context(), &drivertest.Fence{}, n, target); err != nil {
		t.Fatal(err)
	}
	w := strings.Join(b.Written(), "\n")
	for _, word := range []string{`"AuthenticationMethod":"MutualCHAP"`, `"CHAPUsername":"chap"`, `"CHAPSecret":"pa55w0rd1234"`, `"MutualCHAPUsername":"them"`, `"MutualCHAPSecret":"th31r-s3cret"`,
		`"SecondaryTargetName":"iqn.2010-10.org.example:w"`, `"SecondaryTargetIPAddress":"192.0.2.11"`, `"SecondaryTargetTCPPort":3262`, `"SecondaryLUN":4`} {
		if !strings.Contains(w, word) {
			t.Errorf("writes %s lack %s", w, word)
		}
	}
	if err := HideAll(target.Secrets(), errors.New("pa55w0rd1234 and th31r-s3cret")); strings.Contains(err.Error(), "pa55") || strings.Contains(err.Error(), "th31r") {
		t.Errorf("a secret is told: %v", err)
	}
}

// What the BMC says of settings that the firmware was not started with is told where there is no disk to boot.
func TestProblemsOfSettingsAreTold(t *testing.T) {
	b := adapters(t, true)
	b.Do(func() {
		settings := b.At["/redfish/v1/Chassis/1/NetworkAdapters/NIC.1/NetworkDeviceFunctions/1"]["@Redfish.Settings"].(map[string]any)
		settings["Messages"] = []any{map[string]any{"MessageId": "Base.1.8.GeneralError", "Message": "Attempt 1 has no room."}}
	})
	n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
	err := newDriver(t, Options{}).SetBootDevice(t.Context(), &drivertest.Fence{}, n, driver.BootISCSI, true)
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "Attempt 1 has no room.") {
		t.Errorf("%v", err)
	}
}

// What a BMC says of a start.
func TestStart(t *testing.T) {
	for last, want := range map[string]driver.Start{"": driver.StartUntold, "OEM": driver.StartUntold, "None": driver.InFirmware, "MemoryInitializationStarted": driver.InFirmware,
		"SystemHardwareInitializationComplete": driver.PastFirmware, "SetupEntered": driver.PastFirmware, "OSRunning": driver.PastFirmware} {
		b := redfishtest.Start(t, "Dell", redfishtest.Tree{})
		b.Do(func() { b.At[redfishtest.System]["BootProgress"] = map[string]any{"LastState": last} })
		n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
		if far, err := newDriver(t, Options{}).Start(t.Context(), n); far != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", last, far, err, want)
		}
	}
}

// A machine with an adapter that takes an iSCSI target has the capability that the storage interface cinder asks for. Those whose adapters
// take none, or that have more of them than are looked at, have not, and the BMC is not asked without end.
func TestInspectionFindsISCSIBoot(t *testing.T) {
	const functions = "/redfish/v1/Chassis/1/NetworkAdapters/NIC.1/NetworkDeviceFunctions"
	for name, c := range map[string]struct {
		change func(redfishtest.Tree)
		want   bool
	}{
		"as it is": {func(redfishtest.Tree) {}, true},
		"no target taken": {func(at redfishtest.Tree) {
			delete(at[functions+"/1"], "iSCSIBoot")
			at[functions+"/2"]["iSCSIBoot"] = nil
		}, false},
		"the second does": {func(at redfishtest.Tree) { delete(at[functions+"/1"], "iSCSIBoot") }, true},
		"says it cannot": {func(at redfishtest.Tree) {
			for _, f := range []string{"/1", "/2"} {
				at[functions+f]["NetDevFuncCapabilities"] = []any{"Ethernet"}
			}
		}, false},
		"no adapters": {func(at redfishtest.Tree) { delete(at["/redfish/v1/Chassis/1"], "NetworkAdapters") }, false},
		"more than are looked at": {func(at redfishtest.Tree) {
			links := make([]string, mostFunctions)
			for i := range links {
				links[i] = fmt.Sprintf("%s/gone%d", functions, i)
			}
			at[functions] = redfishtest.Links(append(links, functions+"/1")...)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := adapters(t, false)
			b.Do(func() { c.change(b.At) })
			rig := drivertest.NewRig()
			rig.Node.DriverInfo = map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}
			i := Inspection{Driver: newDriver(t, Options{}), Capabilities: Capabilities}
			if err := runStep(t, rig, stepNamed(t, i.InspectSteps(rig.Node), "inspect_hardware"), nil); err != nil {
				t.Fatal(err)
			}
			if found := strings.Contains(string(rig.Inv.PluginData), `"iscsi_boot":"true"`); found != c.want {
				t.Errorf("it tells %s", rig.Inv.PluginData)
			}
		})
	}
}
