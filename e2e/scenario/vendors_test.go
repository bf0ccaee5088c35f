package scenario

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/uefivars"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// vendorPairs are those of vendors' boot interfaces. The virtual BMC is that vendor's for the time of a row. What they share with the
// standard's is shown there: here is what their drivers tell a BMC in words of its own, and one row of each kind of boot.
func vendorPairs() (list []pair) {
	for _, p := range []struct {
		machine, boot string
		deploys       []string
	}{
		{"uefi-0", "ilo-virtual-media", []string{"direct", "iscsi", byVolume, byFiles, byImage}},
		{"uefi-0", "ilo-pxe", []string{"direct", byVolume}},
		{"http-0", iloHTTPS, []string{"direct", "iscsi", byVolume, byFiles, byImage}},
		{"uefi-0", "idrac-redfish-virtual-media", []string{"direct", byVolume, byFiles, byImage}},
		{"bios-0", "ilo-virtual-media", []string{"direct", byVolume}},
		{"bios-0", "ilo-pxe", []string{byVolume}},
		{"bios-0", iloHTTPS, []string{"direct"}},
		{"bios-0", "idrac-redfish-virtual-media", []string{"direct", byVolume}},
	} {
		for _, deploy := range p.deploys {
			list = append(list, onMachine(pair{p.machine, p.boot, deploy, refusal(p.machine, p.boot, deploy)}))
		}
	}
	return list
}

// iloHTTPS is the boot interface of iLOs whose firmware loads by https alone.
const iloHTTPS = "ilo-uefi-https"

// drivers are hardware types by how the names of their boot interfaces begin, and whose BMC the virtual one then is.
var drivers = []struct {
	boot, driver string
	flavour      vbmc.Flavour
}{
	{"ilo-pxe", "ilo", vbmc.HPE}, // which finds out that this iLO speaks Redfish
	{"ilo-", "ilo5", vbmc.HPE},
	{"idrac-", "idrac", vbmc.Dell},
}

// readied has the machine's BMC be that of the boot interface's vendor until the test ends. Firmware that loads by https alone trusts
// rackds that have a certificate.
func (p pair) readied(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, d := range drivers {
		if strings.HasPrefix(p.boot, d.boot) {
			bmc := theRack.BMC(p.machine)
			bmc.Be(d.flavour)
			t.Cleanup(func() { bmc.Be(vbmc.Plain) })
			break
		}
	}
	if p.boot != iloHTTPS || p.refused != "" {
		return
	}
	authority, certificate, key := certificates(t)
	withTLS(ctx, t, "--https-certificate", certificate, "--https-key", key)
	if err := theRack.Serving.Machines[p.machine].EditVariables(func(s *uefivars.Store) error { return s.SetTLSAuthorities(uuid.New(), authority) }); err != nil {
		t.Fatal(err)
	}
}

// hardware makes a machine one of the boot interface's hardware type.
func (p pair) hardware(t *testing.T, m *operator.Machine) {
	t.Helper()
	for _, d := range drivers {
		if !strings.HasPrefix(p.boot, d.boot) {
			continue
		}
		if m.Driver = d.driver; d.flavour != vbmc.HPE {
			return
		}
		at, err := url.Parse(m.DriverInfo["redfish_address"].(string))
		if err != nil {
			t.Fatal(err)
		}
		info := map[string]any{"ilo_address": at.Hostname(), "client_port": at.Port(), "ilo_verify_ca": false}
		for name, value := range m.DriverInfo {
			switch own, of := strings.CutPrefix(name, "redfish_"); {
			case !of:
				info[name] = value
			case own == "username" || own == "password":
				info["ilo_"+own] = value
			}
		}
		m.DriverInfo = info
		return
	}
}

// loadedByTLS looks that the firmware names no URI but by https on its console.
func loadedByTLS(ctx context.Context, t *testing.T, console *machine.SerialLog) {
	t.Helper()
	if line, err := console.Wait(ctx, fromURI); err != nil || !strings.Contains(line, "https://") {
		t.Errorf("the firmware says %q of what it loads, %v", strings.TrimSpace(line), err)
	}
}

// attachedBy looks that the system which is on the console has come from the volume that the firmware has logged in to.
func attachedBy(ctx context.Context, t *testing.T, console *machine.SerialLog) {
	t.Helper()
	line, err := console.Wait(ctx, regexp.MustCompile(`IRONYARD-INSTANCE-(IBFT|ALIVE).*`))
	if err != nil || !strings.Contains(line, "target0="+volumeIQN+",") {
		t.Errorf("of the volume that its firmware has attached the system finds %q, %v", line, err)
	}
}

// detached looks that a machine's firmware logs in nowhere at its next start.
func detached(t *testing.T, name string) {
	t.Helper()
	now, next, problem, err := theRack.Serving.Machines[name].ISCSI()
	if next != nil {
		now = *next
	}
	if err != nil || len(now.Attempts) > 0 {
		t.Errorf("after the undeploy the firmware logs in with %+v, %s, %v", now, problem, err)
	}
}
