package irmc

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// orderBySCCIClient gives orders with python-scciclient, the library that Ironic has for an iRMC. It waits for iRMCs that need time between
// two orders, which the double does not need.
const orderBySCCIClient = `
import json, sys, warnings
warnings.simplefilter("ignore")
from scciclient.irmc import scci
scci.time.sleep = lambda seconds: None
ask = json.load(sys.stdin)
give = scci.get_client(ask["host"], ask["user"], ask["password"], auth_method=ask["auth"])
for name in ask["orders"]:
    try:
        give(getattr(scci, name))
        print("done", name)
    except scci.SCCIClientError as e:
        print("refused", name, e)
`

// scciclient runs that program, and returns what it says of each order.
func scciclient(t *testing.T, d *double, auth, password string, orders ...string) []string {
	t.Helper()
	asked, err := json.Marshal(map[string]any{"host": strings.TrimPrefix(d.URL, "https://"), "user": redfishtest.User, "password": password, "auth": auth, "orders": orders})
	if err != nil {
		t.Fatal(err)
	}
	var why strings.Builder
	p := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", orderBySCCIClient)
	p.Env, p.Stdin, p.Stderr = []string{"PATH=/usr/bin:/bin"}, bytes.NewReader(asked), &why
	out, err := p.Output()
	if err != nil {
		t.Fatalf("python-scciclient: %v: %.2000s", err, why.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// The double takes python-scciclient for a client of its own, and what the driver sends is what python-scciclient sends, but for blanks.
func TestOrdersAreThoseOfSCCIClient(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package python3-scciclient; set IRONYARD_E2E=1")
	}
	for _, auth := range []string{"basic", "digest"} {
		t.Run(auth, func(t *testing.T) {
			d := newDouble(t)
			d.digest = auth == "digest"
			i := newInterface(t, lan{d})
			n, f := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}, &drivertest.Fence{}
			n.DriverInfo[fieldAuth] = auth
			power := func(s driver.PowerState) func(context.Context) error {
				return func(ctx context.Context) error { return i.SetPower(ctx, f, n, s) }
			}
			all := []struct {
				name string
				ours func(context.Context) error
			}{
				{"POWER_ON", power(driver.PowerOn)}, {"POWER_RESET", power(driver.Rebooting)}, {"POWER_RAISE_NMI", func(ctx context.Context) error { return i.InjectNMI(ctx, f, n) }},
				{"POWER_OFF", power(driver.PowerOff)}, {"POWER_ON", power(driver.PowerOn)}, {"POWER_SOFT_CYCLE", power(driver.SoftReboot)}, {"POWER_SOFT_OFF", power(driver.SoftPowerOff)}}
			var names []string
			for _, o := range all {
				names = append(names, o.name)
			}
			for k, said := range scciclient(t, d, auth, redfishtest.Password, names...) {
				if said != "done "+names[k] {
					t.Errorf("python-scciclient says %q", said)
				}
			}
			var theirs []string
			d.do(func() { theirs, d.bodies = d.bodies, nil })
			for _, o := range all {
				if err := o.ours(t.Context()); err != nil {
					t.Errorf("%s: %v", o.name, err)
				}
			}
			plain := func(s string) string { return strings.Join(strings.Fields(s), "") }
			if len(theirs) != len(all) || len(d.bodies) != len(all) {
				t.Fatalf("python-scciclient has sent %q, the driver %q", theirs, d.bodies)
			}
			for k, o := range all {
				if plain(d.bodies[k]) != plain(theirs[k]) {
					t.Errorf("%s: the driver sends %q, python-scciclient %q", o.name, d.bodies[k], theirs[k])
				}
			}
			if said := scciclient(t, d, auth, "wrong", "POWER_OFF"); !strings.HasPrefix(said[0], "refused POWER_OFF") || !strings.Contains(said[0], "401") {
				t.Errorf("with a wrong password python-scciclient says %q", said)
			}
			d.do(func() { d.fails = "illegal op-code" })
			if said := scciclient(t, d, auth, redfishtest.Password, "POWER_OFF"); !strings.Contains(said[0], "STATUS CODE = 15, ERROR = illegal op-code, MESSAGE = failed") {
				t.Errorf("of a refusal python-scciclient says %q", said)
			}
		})
	}
}
