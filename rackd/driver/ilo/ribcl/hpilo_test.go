package ribcl

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// callByHPILO calls functions of python-hpilo, another client of iLOs, and prints what each returns.
const callByHPILO = `
import json, sys
import hpilo
ask = json.load(sys.stdin)
ilo = hpilo.Ilo(ask["host"], ask["user"], ask["password"], port=int(ask["port"]))
for name, *args in ask["calls"]:
    try:
        print(json.dumps(getattr(ilo, name)(*args), default=str))
    except hpilo.IloError as e:
        print("refused:", type(e).__name__, e)
`

// hpilo runs that program, and returns a line for each call.
func hpilo(t *testing.T, d *double, password string, calls ...[]any) []string {
	t.Helper()
	at, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := json.Marshal(map[string]any{"host": at.Hostname(), "port": at.Port(), "user": "admin", "password": password, "calls": calls})
	if err != nil {
		t.Fatal(err)
	}
	var why strings.Builder
	p := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", "-c", callByHPILO)
	p.Env, p.Stdin, p.Stderr = []string{"PATH=/usr/bin:/bin"}, bytes.NewReader(asked), &why
	out, err := p.Output()
	if err != nil {
		t.Fatalf("python-hpilo: %v: %.2000s", err, why.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// python-hpilo sees what the driver has set in the double, and the driver sees what python-hpilo has.
func TestHPILO(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package python3-hpilo; set IRONYARD_E2E=1")
	}
	const plain = "s3cret-pass" // python-hpilo escapes no password
	d := newDouble(t)
	d.password, d.uid = plain, "OFF"
	r, n, f := newDriver(t), d.node(plain), &drivertest.Fence{}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	look := [][]any{{"get_product_name"}, {"get_host_power_status"}, {"get_one_time_boot"}, {"get_persistent_boot"}, {"get_current_boot_mode"}, {"get_pending_boot_mode"}, {"get_uid_status"}}
	sees := func(what string, want ...string) {
		t.Helper()
		if got := hpilo(t, d, plain, look...); !slices.Equal(got, want) {
			t.Errorf("%s: python-hpilo sees %q, want %q", what, got, want)
		}
	}
	sees("at first", `"ProLiant ML110 G7"`, `"OFF"`, `"normal"`, `["cdrom", "network", "usb", "floppy", "hdd"]`, `"UEFI"`, `"UEFI"`, `"OFF"`)
	do(r.SetPower(t.Context(), f, n, driver.PowerOn))
	do(r.SetBootDevice(t.Context(), f, n, driver.BootPXE, false))
	do(r.SetIndicator(t.Context(), f, n, lightComponent, lightName, "on"))
	sees("after the driver", `"ProLiant ML110 G7"`, `"ON"`, `"network"`, `["cdrom", "network", "usb", "floppy", "hdd"]`, `"UEFI"`, `"UEFI"`, `"ON"`)

	hpilo(t, d, plain, []any{"set_host_power", false}, []any{"set_one_time_boot", "cdrom"})
	if state, err := r.PowerState(t.Context(), n); err != nil || state != driver.PowerOff {
		t.Errorf("after python-hpilo the driver sees %q, %v", state, err)
	}
	if is, err := r.BootDevice(t.Context(), n); err != nil || is.Device != "cdrom" || is.Persistent == nil || *is.Persistent {
		t.Errorf("after python-hpilo the driver sees the boot device %+v, %v", is, err)
	}
	if got := hpilo(t, d, "wrong", []any{"get_host_power_status"}); !strings.HasPrefix(got[0], "refused: IloLoginFailed") {
		t.Errorf("with a wrong password python-hpilo says %q", got)
	}
}
