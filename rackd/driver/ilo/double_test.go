package ilo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/ilo/ribcl"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// Paths of an iLO 5 1.15 with BIOS U31, as proliantutils' recorded answers have them.
const (
	biosAt     = "/redfish/v1/systems/1/bios"
	iscsiAt    = biosAt + "/iscsi"
	settingsAt = iscsiAt + "/settings"
	mappingsAt = biosAt + "/mappings"
	manager    = "/redfish/v1/Managers/1"
	iscsiPath  = "PciRoot(0x2)/Pci(0x0,0x0)/Pci(0x0,0x2)/MAC(30E17155B124,0x1)/iSCSI(iqn.2016-07.org.de:storage,0x1,0x0)"
)

// double is an iLO 5.
type double struct {
	*redfishtest.BMC
	// secrets are those of CHAP, which it does not show, by the place of the attempt; reverse are what targets show.
	secrets, reverse [2]any
	// stubborn: it refuses settings of iSCSI that are empty or null.
	stubborn bool
}

// holds is all that its attempts hold at the next start.
func (d *double) holds() (text string) {
	d.Do(func() { text = fmt.Sprint(d.At[settingsAt]["iSCSISources"], d.secrets, d.reverse) })
	return text
}

func newDouble(t *testing.T) *double {
	t.Helper()
	link := redfishtest.Link
	one := func() map[string]any {
		return map[string]any{"iSCSIAttemptInstance": 0, "iSCSIAttemptName": "", "iSCSIAuthenticationMethod": "None", "iSCSIChapSecret": nil, "iSCSIChapUsername": nil,
			"iSCSIConnection": "Disabled", "iSCSILUN": "0", "iSCSINicSource": nil, "iSCSITargetInfoViaDHCP": true, "iSCSITargetIpAddress": "0.0.0.0", "iSCSITargetName": "", "iSCSITargetTcpPort": 3260,
			"iSCSIIpAddressType": "IPv4", "iSCSIChapType": "OneWay", "iSCSIReverseChapUsername": nil, "iSCSIReverseChapSecret": nil}
	}
	d := &double{BMC: redfishtest.Start(t, "HPE", redfishtest.Tree{
		biosAt: {"@odata.id": biosAt, "Attributes": map[string]any{"BootMode": "Uefi", "Sriov": "Enabled", "ProcVirtualization": "Enabled"},
			"Oem": map[string]any{"Hpe": map[string]any{"Links": map[string]any{"iScsi": link(iscsiAt + "/"), "Mappings": link(mappingsAt + "/")}}}},
		iscsiAt: {"@odata.id": iscsiAt, "@Redfish.Settings": map[string]any{"SettingsObject": link(settingsAt + "/")}, "iSCSIInitiatorName": "iqn.2015-02.com.hpe:uefi-U31",
			"iSCSISources": []any{one(), one()}},
		settingsAt: {"@odata.id": settingsAt, "@allow": "GET, HEAD, PATCH", "iSCSIInitiatorName": "iqn.2015-02.com.hpe:uefi-U31", "iSCSISources": []any{one(), one()}},
		mappingsAt: {"BiosPciSettingsMappings": []any{
			map[string]any{"Associations": []any{"EmbSata1Aspm"}, "Subinstances": []any{}},
			map[string]any{"Associations": []any{"FlexLom1Enable"}, "Subinstances": []any{
				map[string]any{"Associations": []any{map[string]any{"PreBootNetwork": "FlexLom1Port3"}, "NicBoot1"}},
				map[string]any{"Associations": []any{map[string]any{"PreBootNetwork": "FlexLom1Port4"}, "NicBoot2"}}}}}},
		manager + "/LicenseService": {},
	})}
	s := d.At[redfishtest.System]
	s["Bios"], s["Model"], s["BiosVersion"] = link(biosAt+"/"), "ProLiant DL180 Gen10", "U31 v1.00 (03/11/2017)"
	s["SecureBoot"] = link(redfishtest.System + "/SecureBoot")
	d.At[redfishtest.System+"/SecureBoot"] = map[string]any{"SecureBootEnable": false}
	boot := s["Boot"].(map[string]any)
	boot["BootSourceOverrideTarget@Redfish.AllowableValues"] = []any{"None", "Cd", "Hdd", "Usb", "SDCard", "Utilities", "Diags", "BiosSetup", "Pxe", "UefiShell", "UefiHttp", "UefiTarget"}
	boot["UefiTargetBootSourceOverride"] = "None"
	boot["UefiTargetBootSourceOverride@Redfish.AllowableValues"] = []any{"HD(1,GPT,7F14DF43)/\\EFI\\centos\\shim.efi", iscsiPath}
	d.At[manager]["FirmwareVersion"] = "iLO 5 v1.15"
	d.At[manager]["Oem"] = map[string]any{"Hpe": map[string]any{"License": map[string]any{"LicenseString": "iLO Standard"}, "Links": map[string]any{"LicenseService": link(manager + "/LicenseService")}}}
	d.Write = d.write
	return d
}

func (d *double) write(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == manager+"/LicenseService":
		key := fmt.Sprint(body["LicenseKey"])
		if !strings.HasPrefix(key, "GOOD-") {
			redfishtest.Refuse(w, http.StatusBadRequest, "the license key "+key+" is not valid")
			return true
		}
		d.At[manager]["Oem"].(map[string]any)["Hpe"].(map[string]any)["License"] = map[string]any{"LicenseString": "iLO Advanced"}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{})
	case path == manager+"/Actions/Manager.Reset":
		d.At[manager]["LastResetTime"] = "now"
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, "{}")
	case path == settingsAt && r.Method == http.MethodPatch:
		// A list is merged by its places, and secrets are not shown.
		old := d.At[settingsAt]["iSCSISources"].([]any)
		sources, _ := body["iSCSISources"].([]any)
		for _, s := range sources {
			for name, value := range s.(map[string]any) {
				if d.stubborn && (value == nil || value == "") {
					redfishtest.Refuse(w, http.StatusBadRequest, "the value of "+name+" is not valid")
					return true
				}
			}
		}
		for i, s := range sources {
			if i < len(old) {
				redfishtest.Merge(old[i].(map[string]any), s.(map[string]any))
				if secret, given := s.(map[string]any)["iSCSIChapSecret"]; given {
					d.secrets[i] = secret
				}
				if secret, given := s.(map[string]any)["iSCSIReverseChapSecret"]; given {
					d.reverse[i] = secret
				}
				old[i].(map[string]any)["iSCSIChapSecret"], old[i].(map[string]any)["iSCSIReverseChapSecret"] = nil, nil
			}
		}
		if name := body["iSCSIInitiatorName"]; name != nil {
			d.At[settingsAt]["iSCSIInitiatorName"] = name
		}
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, "{}")
	default:
		return false
	}
	return true
}

func (d *double) info(password string) map[string]any {
	return map[string]any{fieldAddress: d.Host(), fieldPort: d.Port(), fieldUser: redfishtest.User, fieldPassword: password, fieldVerifyCA: d.CA}
}

// management is the interface ilo5.
func management(t *testing.T) Management {
	t.Helper()
	d := redfish.New(redfish.Options{Dialect: Dialect, Networks: redfishtest.Loopback, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(t.Context()) })
	return Management{Management: redfish.Management{Driver: d, Rest: 1}, BIOS: redfish.BIOS{Driver: d}, Firmware: redfish.Firmware{Driver: d}}
}

// auto is the interface ilo.
func auto(t *testing.T) Auto {
	t.Helper()
	r := ribcl.New(ribcl.Options{Dialect: Dialect, Networks: redfishtest.Loopback, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = r.Close(t.Context()) })
	return NewAuto(management(t), r)
}
