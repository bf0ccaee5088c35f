package scenario

import (
	"context"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/uefivars"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// vendorPairs are those of vendors' boot interfaces. The virtual BMC is that vendor's for the time of a row. Partition images, and deploy
// interfaces that tell a BMC nothing of their own, are shown with the standard's.
func vendorPairs() []pair {
	return each([]pair{
		{machine: "uefi-0", boot: "ilo-virtual-media"}, {machine: "uefi-0", boot: "ilo-pxe"},
		{machine: "http-0", boot: iloHTTPS}, {machine: "uefi-0", boot: "idrac-redfish-virtual-media"},
		{machine: "bios-0", boot: "ilo-virtual-media"}, {machine: "bios-0", boot: "ilo-pxe"},
		{machine: "bios-0", boot: iloHTTPS}, {machine: "bios-0", boot: "idrac-redfish-virtual-media"},
	}, "direct", "iscsi", byVolume, byFiles, byImage)
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

// readied has the machine's BMC be that of the boot interface's vendor until the test ends. Rackds give the machine the loader
// of the pair. Firmware that loads by https alone trusts rackds that have a certificate.
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
	if p.loader != "" {
		withMore(ctx, t, loaderArgs(ctx, t)...)
	}
	if p.boot != iloHTTPS || p.refused != "" {
		return
	}
	authority, certificate, key := certificates(t)
	withMore(ctx, t, "--https-certificate", certificate, "--https-key", key)
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

// The firmware of an iLO's machine shows a target its secret by CHAP, by each boot interface that has it log in, and has the target show
// its own. The machine boots its volume. With a wrong secret the deploy fails, and says what to look at. make boot runs it. The target is
// Linux's, as in TestDeployFromVolumeByFirmware.
func TestVolumeOfAnILOByCHAP(t *testing.T) {
	if os.Getenv("IRONYARD_BOOT") == "" {
		t.Skip("takes minutes: make boot runs it")
	}
	ctx := limit(t, 25*time.Minute)
	store, portal, iqn := exported(ctx, t, "bios-0", true)
	for _, boot := range []string{"ilo-pxe", "ilo-virtual-media"} {
		t.Run(boot, func(t *testing.T) {
			p := pair{machine: "bare-0", boot: boot}
			p.readied(ctx, t)
			id := enrolled(ctx, t, p.machine, func(m *operator.Machine) {
				p.hardware(t, m)
				m.Interfaces = map[string]string{"boot": boot}
			})
			properties := map[string]any{"target_portal": portal, "target_iqn": iqn, "auth_method": "CHAP", "auth_username": volumeUser, "auth_password": wrongSecret}
			target := attached(ctx, t, id, properties)
			if err := theRack.Operator.MakeAvailable(ctx, id); err != nil {
				t.Fatal(err)
			}
			startedOnce(ctx, t, id, p.machine)
			shutOut(ctx, t, id, portal, iqn)
			properties["auth_password"], properties["target_lun"] = volumeSecret, 1
			properties["mutual_auth_username"], properties["mutual_auth_password"] = targetUser, targetSecret
			call(ctx, t, "PATCH", "volume/targets/"+target, []map[string]any{{"op": "replace", "path": "/properties", "value": properties}})
			console := consoleFromNow(t, p.machine)
			fromVolume(ctx, t, id, p.machine)
			booted(ctx, t, console, iqn, portal, targetUser)
			undeployed(ctx, t, id)
			detached(t, p.machine)
		})
	}
	released(ctx, t, store, "bios-0")
}
