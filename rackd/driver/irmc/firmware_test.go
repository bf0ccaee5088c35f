package irmc

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// keptVersion is what the node keeps of the iRMC's firmware.
func keptVersion(t *testing.T, kept json.RawMessage) string {
	t.Helper()
	var k keptFirmware
	if len(kept) > 0 {
		if err := json.Unmarshal(kept, &k); err != nil {
			t.Fatal(err)
		}
	}
	return k.Version
}

// verified runs the step of verifications.
func verified(t *testing.T, i Interface, info map[string]any) (*drivertest.Rig, error) {
	t.Helper()
	r := drivertest.NewRig()
	r.Node.DriverInfo = info
	steps := i.NamedSteps(r.Node)
	step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == verifyFirmware })]
	if !step.Has(driver.InVerify) || step.Has(driver.InClean) || step.Priority != 10 {
		t.Errorf("the step is in other flows, or has another priority: %+v", step)
	}
	out, err := step.Run(t.Context(), r.Task(networkboot.IPXE()))
	if err == nil && out != driver.Done() {
		t.Errorf("it ends with %+v", out)
	}
	return r, err
}

// byRedfish is an iRMC that has a Redfish service.
func byRedfish(t *testing.T, manager map[string]any) (*redfishtest.BMC, map[string]any) {
	t.Helper()
	b := redfishtest.Start(t, "Fujitsu", nil)
	b.Do(func() { redfishtest.Merge(b.At["/redfish/v1/Managers/1"], manager) })
	return b, map[string]any{fieldAddress: b.Host(), fieldPort: b.Port(), fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}
}

// The version is that of the iRMC, in either way, and is kept with the node. Nothing is written.
func TestFirmwareVersionIsKept(t *testing.T) {
	b, info := byRedfish(t, map[string]any{"Model": "iRMC S5", "FirmwareVersion": "2.48P"})
	report := reportS4
	old := withReport(t, &report)
	for name, c := range map[string]struct {
		info   map[string]any
		of     *double
		want   string
		writes func() int
	}{
		"by Redfish": {info, newDouble(t), "iRMC S5/2.48P", func() int { return len(b.Written()) }},
		"by SCCI":    {old.info(redfishtest.Password), old, "iRMC S4/7.82F", func() int { return len(old.orders) }},
	} {
		i := newInterface(t, lan{c.of})
		r, err := verified(t, i, c.info)
		if err != nil || keptVersion(t, i.Kept(r.Node)) != c.want || !slices.Contains(r.Phases, "iRMC firmware: "+c.want) || c.writes() > 0 {
			t.Errorf("%s: %v, kept %s, history %q, %d writes", name, err, i.Kept(r.Node), r.Phases, c.writes())
		}
	}
}

// The vendor method reads it again, also beside the work of others, and what else is kept of the node stays.
func TestFirmwareVersionIsReadAgain(t *testing.T) {
	b, info := byRedfish(t, map[string]any{"Model": "iRMC S5", "FirmwareVersion": "2.48P"})
	i := newInterface(t, lan{newDouble(t)})
	list := Vendor{Vendor: redfish.Vendor{Driver: i.Management.Driver}, Own: i}.VendorMethods()
	m := list[slices.IndexFunc(list, func(m driver.VendorMethod) bool { return m.Name == cacheFirmware })]
	if !m.Shared || !m.Async || !slices.Equal(m.HTTPMethods, []string{"POST"}) {
		t.Errorf("%+v", m)
	}
	n := &node.Document{UUID: "u", Name: "web1", DriverInfo: info, Kept: json.RawMessage(`{"irmc_bios_config":"packed","irmc_bios_changes":1}`)}
	for _, version := range []string{"2.48P", "3.01P"} {
		b.Do(func() { b.At["/redfish/v1/Managers/1"]["FirmwareVersion"] = version })
		if err := m.Check(n, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Call(t.Context(), nil, n, nil); err != nil || keptVersion(t, i.Kept(n)) != "iRMC S5/"+version || !strings.Contains(string(i.Kept(n)), "packed") {
			t.Errorf("%v, kept %s", err, i.Kept(n))
		}
	}
	if err := m.Check(n, map[string]any{"force": true}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("an argument: %v", err)
	}
	if w := b.Written(); len(w) > 0 {
		t.Errorf("written %q", w)
	}
}

// An iRMC that does not admit rackd, or tells no version, fails the step. What was kept stays.
func TestFirmwareVersionFails(t *testing.T) {
	_, silent := byRedfish(t, map[string]any{"Model": "iRMC S5"})
	_, wrong := byRedfish(t, map[string]any{"FirmwareVersion": "2.48P"})
	wrong[fieldPassword] = "wr0ng"
	none, half := `<Root><System/></Root>`, reportS4[:400]
	old, broken, gone := withReport(t, &none), withReport(t, &half), newDouble(t)
	for name, c := range map[string]struct {
		info map[string]any
		says string
		is   error
	}{
		"no version":          {silent, "it answers, and tells none", driver.ErrUnsupported},
		"a wrong password":    {wrong, "check irmc_username and irmc_password", driver.ErrDenied},
		"a report without it": {old.info(redfishtest.Password), "it answers, and tells none", driver.ErrUnsupported},
		"half a report":       {broken.info(redfishtest.Password), "no whole report", nil},
		"neither of both":     {gone.info(redfishtest.Password), "HTTP 404", nil},
	} {
		i := newInterface(t, lan{newDouble(t)})
		r, err := verified(t, i, c.info)
		if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) || strings.Contains(err.Error(), redfishtest.Password) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if kept := keptVersion(t, i.Kept(r.Node)); kept != "" {
			t.Errorf("%s: kept %q", name, kept)
		}
	}
	if err := overHTTP(&node.Document{DriverInfo: map[string]any{fieldPort: "80"}}, driver.ErrUnreachable); !strings.Contains(err.Error(), "set it to 443") || !errors.Is(err, driver.ErrUnreachable) {
		t.Error(err)
	}
	if err := overHTTP(&node.Document{DriverInfo: map[string]any{fieldPort: "443"}}, driver.ErrUnreachable); err != driver.ErrUnreachable {
		t.Error(err)
	}
}

// python-scciclient, which Ironic asks, finds the same in the report.
func TestFirmwareVersionIsThatOfSCCIClient(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package python3-scciclient; set IRONYARD_E2E=1")
	}
	const program = "import sys; from xml.etree import ElementTree as e; from scciclient.irmc import scci; print('/'.join(scci.get_irmc_version_str(e.fromstring(sys.stdin.read()))))"
	p := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", "-c", program)
	p.Env, p.Stdin = []string{"PATH=/usr/bin:/bin"}, strings.NewReader(strings.Replace(reportS4, `encoding="UTF-8"`, "", 1))
	out, err := p.Output()
	if err != nil {
		t.Fatalf("python-scciclient: %v", err)
	}
	r, err := parseReport(reportS4)
	if theirs := strings.TrimSpace(string(out)); err != nil || theirs != r.model+"/"+r.firmware {
		t.Errorf("python-scciclient says %q, the driver %q/%q, %v", theirs, r.model, r.firmware, err)
	}
}
