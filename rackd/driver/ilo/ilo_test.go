package ilo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// Both hardware types keep the contract on an iLO that speaks Redfish.
func TestConformance(t *testing.T) {
	t.Run("ilo5", func(t *testing.T) {
		drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
			d, m := newDouble(t), management(t)
			return d.Machine(m, m, d.info)
		})
	})
	t.Run("ilo", func(t *testing.T) {
		drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
			d, a := newDouble(t), auto(t)
			m := d.Machine(a, a, d.info)
			m.Close = func(ctx context.Context) error { return errors.Join(a.Redfish.Driver.Close(ctx), a.RIBCL.Close(ctx)) }
			return m
		})
	})
}

// Machines that boot by iSCSI keep that contract too.
func TestISCSIConformance(t *testing.T) {
	for name, of := range map[string]func(*testing.T) driver.ISCSIBooter{
		"ilo5": func(t *testing.T) driver.ISCSIBooter { return management(t) }, "ilo": func(t *testing.T) driver.ISCSIBooter { return auto(t) },
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.ISCSIConformance(t, func(t *testing.T) *drivertest.ISCSIMachine {
				d := newDouble(t)
				return &drivertest.ISCSIMachine{Machine: d.Machine(nil, nil, d.info), Booter: of(t), Adapters: 2, Holds: d.holds, Stubborn: func() { d.Do(func() { d.stubborn = true }) }}
			})
		})
	}
}

func nodeOf(d *double) *node.Document {
	return &node.Document{UUID: "6e6f6465", Name: "web1", DriverInfo: d.info(redfishtest.Password)}
}

var target = driver.ISCSITarget{Host: "192.0.2.10", Port: 3260, IQN: "iqn.2016-07.org.de:storage", LUN: 1, User: "chap", Secret: "pa55w0rd12"}

// What reaches the iLO is what proliantutils sends it.
func TestISCSITargetInHPEsWords(t *testing.T) {
	d, m := newDouble(t), management(t)
	if err := m.SetISCSIBoot(t.Context(), &drivertest.Fence{}, nodeOf(d), target); err != nil {
		t.Fatal(err)
	}
	w := d.Written()
	if len(w) != 1 {
		t.Fatalf("writes: %v", w)
	}
	method, rest, _ := strings.Cut(w[0], " ")
	path, text, _ := strings.Cut(rest, " ")
	var got, want any
	_ = json.Unmarshal([]byte(text), &got)
	source := `{"iSCSIAttemptName":"NicBoot%[1]d","iSCSINicSource":"NicBoot%[1]d","iSCSIAttemptInstance":%[1]d,"iSCSITargetName":"iqn.2016-07.org.de:storage","iSCSILUN":"1","iSCSITargetIpAddress":"192.0.2.10",
		"iSCSITargetTcpPort":3260,"iSCSITargetInfoViaDHCP":false,"iSCSIConnection":"Enabled","iSCSIAuthenticationMethod":"Chap","iSCSIChapUsername":"chap","iSCSIChapSecret":"pa55w0rd12"}`
	_ = json.Unmarshal([]byte(`{"iSCSISources":[`+fmt.Sprintf(source, 1)+","+fmt.Sprintf(source, 2)+`]}`), &want)
	if method != "PATCH" || path != settingsAt || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s %s\n got %v\nwant %v", method, path, got, want)
	}
}

// The attempt of an adapter that the BIOS named when the target was set, and names no more, is not passed over.
func TestAnAttemptOfAnAdapterThatIsGoneIsTold(t *testing.T) {
	for connection, kept := range map[string]bool{"Enabled": false, "Disabled": true} {
		d, m := newDouble(t), management(t)
		if err := m.SetISCSIBoot(t.Context(), &drivertest.Fence{}, nodeOf(d), target); err != nil {
			t.Fatal(err)
		}
		d.Do(func() {
			d.At[settingsAt]["iSCSISources"].([]any)[1].(map[string]any)["iSCSIConnection"] = connection
			slots := d.At[mappingsAt]["BiosPciSettingsMappings"].([]any)[1].(map[string]any)
			slots["Subinstances"] = slots["Subinstances"].([]any)[:1]
		})
		err := m.ClearISCSIBoot(t.Context(), &drivertest.Fence{}, nodeOf(d))
		if err == nil || errors.Is(err, driver.ErrTargetKept) != kept || kept && (!strings.Contains(err.Error(), "NicBoot2") || strings.Contains(err.Error(), "NicBoot1")) {
			t.Errorf("%s: %v", connection, err)
		}
	}
}

// A LUN is hexadecimal there, and may have more numbers of SAM-2 behind the first.
func TestLUNs(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "1": 1, "0001": 1, "1A": 26, "1a": 26, "FFFF": 65535, "001A-0000-0000-0000": 26, "1-0": 1, "1-1": -1, "10000": -1, "": -1, "x": -1} {
		if got := lunOf(text); got != want {
			t.Errorf("%q is LUN %d, want %d", text, got, want)
		}
	}
	for _, lun := range []int{0, 9, 10, 26, 65535} {
		if got := lunOf(lunText(lun)); got != lun {
			t.Errorf("LUN %d is written %q, and read as %d", lun, lunText(lun), got)
		}
	}
}

func TestISCSIIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*double)
		says string
	}{
		"BIOS boot mode": {func(d *double) { d.At[biosAt]["Attributes"].(map[string]any)["BootMode"] = "LegacyBios" }, "iSCSI boot is not supported in the BIOS boot mode"},
		"no initiator":   {func(d *double) { delete(d.At[biosAt], "Oem") }, "no iSCSI initiator"},
		"no adapters":    {func(d *double) { d.At[mappingsAt]["BiosPciSettingsMappings"] = []any{} }, "No nics were found on the system"},
	} {
		t.Run(name, func(t *testing.T) {
			d, m := newDouble(t), management(t)
			c.set(d)
			err := m.SetISCSIBoot(t.Context(), &drivertest.Fence{}, nodeOf(d), target)
			if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), c.says) || len(d.Written()) > 0 || strings.Contains(err.Error(), target.Secret) {
				t.Errorf("%v after %v", err, d.Written())
			}
		})
	}
}

func TestBootDeviceISCSI(t *testing.T) {
	d, m := newDouble(t), management(t)
	n := nodeOf(d)
	list, err := m.SupportedBootDevices(t.Context(), n)
	if err != nil || list[len(list)-1] != driver.BootISCSI {
		t.Errorf("%v, %v", list, err)
	}
	for _, persistent := range []bool{true, false} {
		for range 2 {
			before := len(d.Written())
			if err := m.SetBootDevice(t.Context(), &drivertest.Fence{}, n, driver.BootISCSI, persistent); err != nil {
				t.Fatal(err)
			}
			is, err := m.BootDevice(t.Context(), n)
			if err != nil || is.Device != "iscsiboot" || *is.Persistent != persistent || len(d.Written())-before > 2 {
				t.Errorf("%v, %v after %v", is, err, d.Written()[before:])
			}
		}
	}
	if w := d.Written(); len(w) != 3 {
		t.Errorf("writes: %v", w)
	}
	d.Do(func() {
		boot := d.At[redfishtest.System]["Boot"].(map[string]any)
		boot["UefiTargetBootSourceOverride@Redfish.AllowableValues"], boot["UefiTargetBootSourceOverride"] = []any{"HD(1)"}, "None"
	})
	if err := m.SetBootDevice(t.Context(), &drivertest.Fence{}, n, driver.BootISCSI, false); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "No UEFI iSCSI bootable device found on system") {
		t.Errorf("without such a device: %v", err)
	}
}

func TestFields(t *testing.T) {
	d := redfish.New(redfish.Options{Dialect: Dialect})
	for _, c := range []struct {
		field string
		value any
		says  string
	}{
		{fieldPort, "8443", ""}, {fieldPort, 443.0, ""}, {fieldTimeout, 30.0, ""}, {fieldAddress, "2001:db8::1", ""}, {fieldVerifyCA, "false", ""}, {fieldConsolePort, "443", ""},
		{fieldAddress, "", "The following required iLO parameters are missing from the node's driver_info: ['ilo_address']"},
		{fieldPassword, "", "['ilo_password']"},
		{fieldPort, "many", `client_port "many" is not a valid port.`}, {fieldPort, "70000", "client_port"}, {fieldConsolePort, "no", "console_port"},
		{fieldTimeout, "soon", "The following iLO parameters from the node's driver_info should be integers: ['client_timeout']"},
		{fieldVerifyCA, "no-such.pem", fieldVerifyCA}, {fieldCAFile, "no-such.pem", "no-such.pem"},
		{fieldCAFile, "Pin ", "it is the name of a PEM file: set ilo_verify_ca to pin"}, // central does not count it as asking for a pin
		{fieldCAFile, "false", "it is the name of a PEM file: set ilo_verify_ca to false, and remove ca_file"}, {fieldCAFile, false, "set ilo_verify_ca to false"},
		{fieldCAFile, " Off", "set ilo_verify_ca to false"}, {fieldCAFile, true, "set ilo_verify_ca to true"},
		{fieldAddress, "https://ilo/x", fieldAddress},
	} {
		n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: "192.0.2.1", fieldUser: "Administrator", fieldPassword: "pw", c.field: c.value}}
		err := d.Validate(n)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s is %v: %v, want %q", c.field, c.value, err, c.says)
		}
	}
}

func stepOf(t *testing.T, d *double, m Management, name string, args map[string]any) (*drivertest.Rig, error) {
	t.Helper()
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	for _, s := range m.NamedSteps(r.Node) {
		if s.Name != name {
			continue
		}
		if s.Check != nil {
			if err := s.Check(r.Node, args); err != nil {
				return r, err
			}
		}
		for range 100 {
			task := r.Task(networkboot.IPXE())
			task.Args = args
			out, err := s.Run(t.Context(), task)
			if _, waits := out.Waiting(); err != nil || !waits {
				return r, err
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatal("it still waits")
	}
	t.Fatalf("there is no step %s", name)
	return nil, nil
}

func TestLicence(t *testing.T) {
	d, m := newDouble(t), management(t)
	r, err := stepOf(t, d, m, "activate_license", map[string]any{argLicense: "GOOD-AAAAA-BBBBB"})
	if err != nil || len(r.Phases) != 1 || r.Phases[0] != "licence: the iLO shows iLO Advanced" {
		t.Errorf("%v, %v", err, r.Phases)
	}
	if _, err = stepOf(t, d, m, "activate_license", map[string]any{argLicense: "B4D-KEY-0F-M1NE"}); err == nil || strings.Contains(err.Error(), "B4D-KEY") {
		t.Errorf("a bad key: %v", err)
	}
	if _, err = stepOf(t, d, m, "activate_license", map[string]any{argLicense: 5.0}); err == nil || !strings.Contains(err.Error(), "Value of 'ilo_license_key' must be a string") {
		t.Errorf("no text: %v", err)
	}
}

func TestReset(t *testing.T) {
	d, m := newDouble(t), management(t)
	if _, err := stepOf(t, d, m, "reset_ilo", nil); err != nil || len(d.Written()) != 1 {
		t.Errorf("%v after %v", err, d.Written())
	}
}

func TestFirmwareImagesAreChecked(t *testing.T) {
	d, m := newDouble(t), management(t)
	good := map[string]any{"url": "http://images.example/ilo5.bin", "checksum": strings.Repeat("a", 64), "component": "ilo"}
	with := func(name string, v any) map[string]any {
		one := map[string]any{}
		for k, old := range good {
			one[k] = old
		}
		one[name] = v
		return one
	}
	for says, args := range map[string]map[string]any{
		"Invalid firmware update mode 'sum'": {argMode: "sum", argImages: []any{good}},
		"cannot be an empty list":            {argMode: "ilo", argImages: []any{}},
		"is missing some of":                 {argMode: "ilo", argImages: []any{with("url", "")}},
		"Component 'cpld' for firmware file": {argMode: "ilo", argImages: []any{with("component", "cpld")}},
		"is neither sha256 nor sha512":       {argMode: "ilo", argImages: []any{with("checksum", strings.Repeat("a", 32))}},
	} {
		if _, err := stepOf(t, d, m, "update_firmware", args); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", args, err, says)
		}
	}
}

// coded serves images as rackds do: under a code, which lets its reader in.
type coded struct{ driver.Images }

const codeOfImage = "Zm9vYmFyYmF6-XRoZS1jb2"

func (coded) Prepare(_ context.Context, src driver.ImageSource) ([]string, error) {
	return []string{"http://rack:8080/images/" + codeOfImage + "/" + src.ID()}, nil
}

// The history tells neither the credentials of an image's address nor the code under which the rack serves it.
func TestFirmwareIsToldWithoutAccess(t *testing.T) {
	d, m := newDouble(t), management(t)
	const service, simple = "/redfish/v1/UpdateService", "/redfish/v1/UpdateService/Actions/SimpleUpdate"
	d.At["/redfish/v1"]["UpdateService"] = redfishtest.Link(service)
	d.At[service] = map[string]any{"@odata.id": service, "Actions": map[string]any{"#UpdateService.SimpleUpdate": map[string]any{"target": simple}}}
	d.Write = func(w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
		if r.URL.Path != simple {
			return false
		}
		d.At[manager]["FirmwareVersion"] = "iLO 5 v2.44"
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "{}")
		return true
	}
	sum := strings.Repeat("0a", 32)
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	steps := m.NamedSteps(r.Node)
	step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == "update_firmware" })]
	args := map[string]any{argMode: "ilo", argImages: []any{map[string]any{"url": "http://u:hunter2@images.example/ilo5.bin?sig=hunter2", "checksum": sum, "component": "ilo"}}}
	var err error
	for range 100 {
		task := r.Task(networkboot.IPXE())
		task.Args, task.Images = args, coded{r}
		var out driver.Outcome
		if out, err = step.Run(t.Context(), task); err != nil {
			break
		}
		if _, waits := out.Waiting(); !waits {
			break
		}
	}
	if err != nil || !slices.ContainsFunc(d.Written(), func(w string) bool { return strings.Contains(w, codeOfImage) }) {
		t.Fatalf("%v, and it was told %q", err, d.Written())
	}
	told := strings.Join(append(r.Phases, r.Busy...), "\n")
	if !strings.Contains(told, "the BMC fetches rack:8080/images/******/sha256-"+sum) || strings.Contains(told, codeOfImage) || strings.Contains(told, "hunter2") {
		t.Errorf("the history says %q", told)
	}
}

func TestCapabilities(t *testing.T) {
	d, m := newDouble(t), management(t)
	n := nodeOf(d)
	read := func() (found map[string]string) {
		if err := m.Turn(t.Context(), nil, n, "inspect", func(turn *redfish.Turn) error { found = Capabilities(turn); return nil }); err != nil {
			t.Fatal(err)
		}
		return found
	}
	want := map[string]string{"server_model": "ProLiant DL180 Gen10", "rom_firmware_version": "U31 v1.00 (03/11/2017)", "ilo_firmware_version": "iLO 5 v1.15", "sriov_enabled": "true", "cpu_vt": "true",
		"iscsi_boot": "true", "secure_boot": "true"}
	if got := read(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	d.Do(func() { d.At[settingsAt]["@allow"] = "GET, HEAD" })
	if got := read(); got["iscsi_boot"] != "" {
		t.Error("settings that cannot be changed are iscsi_boot")
	}
}

// The boot interface ilo-uefi-https has the firmware load a URL once, and then its disk.
func TestHTTPSBoot(t *testing.T) {
	d, m := newDouble(t), management(t)
	n := nodeOf(d)
	const image = "https://192.0.2.5:8443/media/u/secret/boot.iso"
	if err := m.SetHTTPBoot(t.Context(), &drivertest.Fence{}, n, image, false); err != nil {
		t.Fatal(err)
	}
	boot := d.At[redfishtest.System]["Boot"].(map[string]any)
	if boot["BootSourceOverrideTarget"] != "UefiHttp" || boot["HttpBootUri"] != image || boot["BootSourceOverrideEnabled"] != "Once" {
		t.Errorf("it boots %v", boot)
	}
	if err := m.SetBootDevice(t.Context(), &drivertest.Fence{}, n, driver.BootDisk, true); err != nil || boot["BootSourceOverrideTarget"] != "Hdd" {
		t.Errorf("then %v, %v", boot, err)
	}
}
