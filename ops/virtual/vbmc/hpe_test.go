package vbmc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ilo"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// ofILO is a computer with its iLO, the driver's management and its node.
func ofILO(t *testing.T) (*BMC, *equipped, ilo.Management, *node.Document) {
	t.Helper()
	b, computer, address := serveEquipped(t)
	d := redfishdriver.New(redfishdriver.Options{Dialect: ilo.Dialect, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
		"ilo_address": host, "client_port": port, "ilo_username": "admin", "ilo_password": "secret-word", "ilo_verify_ca": false}}
	return b, computer, ilo.Management{Management: redfishdriver.Management{Driver: d}}, n
}

// The driver ilo5 gives the firmware of an iLO's computer its iSCSI target, and takes it back. A BMC that is no iLO has no such settings.
func TestILOTellsFirmwareItsTarget(t *testing.T) {
	b, computer, m, n := ofILO(t)
	target := driver.ISCSITarget{Host: "192.0.2.10", Port: 3261, IQN: "iqn.2026-11.org.example:v", LUN: 26, User: "chap", Secret: "pa55w0rd12-long", Initiator: "iqn.2026-11.org.example:m"}
	if err := m.SetISCSIBoot(t.Context(), open{}, n, target); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a BMC that is no iLO: %v", err)
	}
	b.Be(HPE)
	refuses(t, b, "GET", adaptersPath, "", http.StatusNotFound)
	for range 2 {
		if err := m.SetISCSIBoot(t.Context(), open{}, n, target); err != nil {
			t.Fatal(err)
		}
	}
	if is := computer.next; is == nil || is.Initiator != target.Initiator || len(is.Targets) != 1 || is.CHAP == nil || *is.CHAP != (CHAP{Name: "chap", Secret: "pa55w0rd12-long"}) ||
		is.Targets[0] != (ISCSITarget{Name: target.IQN, Portal: netip.MustParseAddrPort("192.0.2.10:3261"), LUN: 26}) {
		t.Fatalf("the next start has %+v", computer.next)
	}
	if text := ask(b, "GET", initiatorSettingsPath, "").Body.String(); strings.Contains(text, target.Secret) || !strings.Contains(text, target.IQN) || !strings.Contains(text, `"iSCSILUN":"1A"`) {
		t.Errorf("the settings show %s", text)
	}
	if text := ask(b, "GET", initiatorPath, "").Body.String(); strings.Contains(text, target.IQN) {
		t.Errorf("the firmware has the target before its start: %s", text)
	}
	if list, err := m.ISCSIBoot(t.Context(), n); err != nil || len(list) != 1 || !target.Same(list[0]) {
		t.Errorf("the driver reads %+v, %v", list, err)
	}
	// The target shows who it is, and has an address of IPv6.
	mutual := target
	mutual.Host, mutual.TargetUser, mutual.TargetSecret = "2001:db8::10", "volume", "its-own-secret"
	if err := m.SetISCSIBoot(t.Context(), open{}, n, mutual); err != nil {
		t.Fatal(err)
	}
	if is := computer.next; is.CHAP == nil || *is.CHAP != (CHAP{"chap", "pa55w0rd12-long", "volume", "its-own-secret"}) || is.Targets[0].Portal != netip.MustParseAddrPort("[2001:db8::10]:3261") {
		t.Errorf("with mutual CHAP the next start has %+v, %+v", is, is.CHAP)
	}
	if list, err := m.ISCSIBoot(t.Context(), n); err != nil || len(list) != 1 || !mutual.Same(list[0]) {
		t.Errorf("the driver reads %+v, %v", list, err)
	}
	if text := ask(b, "GET", initiatorSettingsPath, "").Body.String(); strings.Contains(text, mutual.TargetSecret) {
		t.Errorf("the settings show %s", text)
	}
	if err := m.SetISCSIBoot(t.Context(), open{}, n, target); err != nil {
		t.Fatal(err)
	}
	if is := computer.next; is.CHAP == nil || *is.CHAP != (CHAP{Name: "chap", Secret: "pa55w0rd12-long"}) {
		t.Errorf("a target that shows nothing again: %+v", is.CHAP)
	}
	if err := m.SetISCSIBoot(t.Context(), open{}, n, mutual); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.ClearISCSIBoot(t.Context(), open{}, n); err != nil {
			t.Fatal(err)
		}
	}
	if is := computer.next; len(is.Targets) > 0 || is.CHAP != nil {
		t.Errorf("after it was cleared the next start has %+v", is)
	}
	for sent, says := range map[string]string{
		`[{"iSCSIConnection":"Enabled"}]`:                                               "iSCSITargetName is missing",
		`[{"iSCSIConnection":"Enabled","iSCSITargetName":"iqn.2026-11.org.example:v"}]`: "no address of a target",
		`[{"iSCSIConnection":"Enabled","iSCSITargetName":"iqn.2026-11.org.example:v","iSCSITargetIpAddress":"192.0.2.1","iSCSILUN":"x"}]`:                                                                                                         "iSCSILUN",
		`[{"iSCSIConnection":"Enabled","iSCSITargetName":"iqn.2026-11.org.example:v","iSCSITargetIpAddress":"192.0.2.1","iSCSITargetTcpPort":0}]`:                                                                                                 "is no port",
		`[{"iSCSIConnection":"Enabled","iSCSITargetName":"iqn.2026-11.org.example:v","iSCSITargetIpAddress":"192.0.2.1","iSCSIAuthenticationMethod":"Chap"}]`:                                                                                     "iSCSIChapSecret",
		`[{"iSCSIConnection":"Enabled","iSCSITargetName":"iqn.2026-11.org.example:v","iSCSITargetIpAddress":"192.0.2.1","iSCSITargetInfoViaDHCP":true}]`:                                                                                          "iSCSITargetInfoViaDHCP",
		`[{"iSCSIConnection":"Enabled","iSCSITargetName":"iqn.2026-11.org.example:v","iSCSITargetIpAddress":"2001:db8::1"}]`:                                                                                                                      "iSCSIIpAddressType",
		`[{"iSCSIConnection":"Enabled","iSCSITargetName":"iqn.2026-11.org.example:v","iSCSITargetIpAddress":"192.0.2.1","iSCSIAuthenticationMethod":"Chap","iSCSIChapUsername":"u","iSCSIChapSecret":"twelve-or-more","iSCSIChapType":"Mutual"}]`: "iSCSIReverseChapSecret",
		`[{"iSCSINicSource":"NicBoot7"}]`: "NicBoot1",
		`[{},{}]`:                         "one attempt",
		`[{"iSCSIColour":"red"}]`:         "iSCSIColour",
	} {
		refuses(t, b, "PATCH", initiatorSettingsPath, `{"iSCSISources":`+sent+`}`, http.StatusBadRequest, says)
	}
}

// A device of UEFI is booted at each start, also where the firmware makes its boot option again. With another boot device it comes last.
func TestILOBootsADeviceOfUEFI(t *testing.T) {
	b, computer, m, n := ofILO(t)
	const disk = "PciRoot(0x0)/Pci(0x2,0x0)/MAC(525400000001,0x1)/IPv4(0.0.0.0)/iSCSI(iqn.2026-11.org.example:v,0x1,0x0,None,None,None,TCP)"
	computer.options, computer.ordered = []BootOption{{Name: "Boot0001", Path: "PciRoot(0x0)/Pci(0x3,0x0)"}, {Name: "Boot0002", Path: "PciRoot(0x0)/Pci(0x2,0x0)"}}, 2
	b.Be(HPE)
	if err := m.SetBootDevice(t.Context(), open{}, n, driver.BootISCSI, true); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "No UEFI iSCSI bootable device found on system") {
		t.Errorf("without such a device: %v", err)
	}
	computer.options, computer.ordered = append(computer.options, BootOption{Name: "Boot0005", Path: disk}), 3
	if err := m.SetBootDevice(t.Context(), open{}, n, driver.BootISCSI, false); err == nil {
		t.Error("it is booted once, which no firmware here is told")
	}
	for range 2 {
		if err := m.SetBootDevice(t.Context(), open{}, n, driver.BootISCSI, true); err != nil {
			t.Fatal(err)
		}
	}
	first := func(want string) {
		t.Helper()
		if computer.options[0].Name != want {
			t.Errorf("the firmware tries %s first, want %s", computer.options[0].Name, want)
		}
	}
	first("Boot0005")
	if is, err := m.BootDevice(t.Context(), n); err != nil || is.Device != string(driver.BootISCSI) || is.Persistent == nil || !*is.Persistent {
		t.Errorf("the driver reads %+v, %v", is, err)
	}
	if device, _ := computer.BootOverride(); device != "" {
		t.Errorf("the computer boots %q before all", device)
	}
	computer.options = []BootOption{computer.options[1], computer.options[2], {Name: "Boot0006", Path: disk}} // the firmware has made it once more
	if w := ask(b, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType":"On"}`); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	first("Boot0006")
	if err := m.SetBootDevice(t.Context(), open{}, n, "cdrom", false); err != nil {
		t.Fatal(err)
	}
	first("Boot0001")
	if device, once := computer.BootOverride(); device != Media || !once {
		t.Errorf("the computer boots %q, once %t", device, once)
	}
	if is, err := m.BootDevice(t.Context(), n); err != nil || is.Device == string(driver.BootISCSI) {
		t.Errorf("the driver reads %+v, %v", is, err)
	}
	b.Be(Plain)
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"UefiTarget","BootSourceOverrideEnabled":"Continuous"}}`, http.StatusBadRequest, "PropertyValueNotInList")
}
