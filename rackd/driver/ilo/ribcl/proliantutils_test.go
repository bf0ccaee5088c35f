package ribcl

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// callByProliantutils calls functions of proliantutils, the library that Ironic has for iLOs, and prints what each returns.
const callByProliantutils = `
import json, sys
from proliantutils.ilo import ribcl
from proliantutils import exception
ask = json.load(sys.stdin)
ilo = ribcl.RIBCLOperations(ask["host"], ask["user"], ask["password"], port=ask["port"])
for name, *args in ask["calls"]:
    try:
        print(json.dumps(getattr(ilo, name)(*args), default=str))
    except exception.IloError as e:
        print("refused:", type(e).__name__, e)
`

// proliantutils runs that program, and returns a line for each call.
func proliantutils(t *testing.T, d *double, password string, calls ...[]string) []string {
	t.Helper()
	at, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	asked, err := json.Marshal(map[string]any{"host": at.Hostname(), "port": port, "user": "admin", "password": password, "calls": calls})
	if err != nil {
		t.Fatal(err)
	}
	var why strings.Builder
	p := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", "-c", callByProliantutils)
	p.Env, p.Stdin, p.Stderr = []string{"PATH=/usr/bin:/bin"}, bytes.NewReader(asked), &why
	out, err := p.Output()
	if err != nil {
		t.Fatalf("proliantutils: %v: %.2000s", err, why.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// proliantutils sees what the driver has set in the double, and the driver sees what proliantutils has.
func TestProliantutils(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package python3-proliantutils; set IRONYARD_E2E=1")
	}
	const plain = "s3cret-pass" // proliantutils escapes no password
	d := newDouble(t)
	d.password = plain
	r, n, f := newDriver(t), d.node(plain), &drivertest.Fence{}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	sees := func(what string, want []string, calls ...[]string) {
		t.Helper()
		if got := proliantutils(t, d, plain, calls...); !slices.Equal(got, want) {
			t.Errorf("%s: proliantutils sees %q, want %q", what, got, want)
		}
	}
	look := [][]string{{"get_product_name"}, {"get_host_power_status"}, {"get_one_time_boot"}, {"get_persistent_boot_device"}, {"get_current_boot_mode"}, {"get_pending_boot_mode"}}
	sees("at first", []string{`"ProLiant ML110 G7"`, `"OFF"`, `"Normal"`, `"CDROM"`, `"UEFI"`, `"UEFI"`}, look...)
	do(r.SetPower(t.Context(), f, n, driver.PowerOn))
	do(r.SetBootDevice(t.Context(), f, n, driver.BootPXE, false))
	sees("after the driver", []string{`"ON"`, `"NETWORK"`}, []string{"get_host_power_status"}, []string{"get_one_time_boot"})
	do(r.SetBootDevice(t.Context(), f, n, driver.BootDisk, true))
	sees("after the driver", []string{`"HDD"`}, []string{"get_persistent_boot_device"})

	proliantutils(t, d, plain, []string{"set_host_power", "OFF"}, []string{"update_persistent_boot", "NETWORK"})
	sees("itself", []string{`"OFF"`}, []string{"get_host_power_status"})
	if state, err := r.PowerState(t.Context(), n); err != nil || state != driver.PowerOff {
		t.Errorf("after proliantutils the driver sees %q, %v", state, err)
	}
	proliantutils(t, d, plain, []string{"set_one_time_boot", "CDROM"})
	if is, err := r.BootDevice(t.Context(), n); err != nil || is.Device != "cdrom" || is.Persistent == nil || *is.Persistent {
		t.Errorf("after proliantutils the driver sees the boot device %+v, %v", is, err)
	}
	if got := proliantutils(t, d, "wrong", []string{"get_host_power_status"}); !strings.HasPrefix(got[0], "refused: IloLoginFailError") {
		t.Errorf("with a wrong password proliantutils says %q", got)
	}
}
