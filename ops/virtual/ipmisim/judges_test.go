package ipmisim

import (
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// run runs a foreign program to its end, and returns what it says. Exit code 2 of a fence agent says that the machine is off.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	needs(t, name)
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2) {
		t.Fatalf("%s %v: %v: %s", name, args, err, out.String())
	}
	return out.String()
}

// FreeIPMI and the fence agent of clusters, two more readers and writers of the same BMC, agree with the driver.
func TestFreeIPMIAndFenceAgent(t *testing.T) {
	t.Parallel()
	c := &computer{}
	at := start(t, c, "s3cret-pass")
	d, n, f := newDriver(t), nodeAt(at.Port(), "s3cret-pass", nil), &drivertest.Fence{}
	port := strconv.Itoa(int(at.Port()))
	chassis := func() string {
		return run(t, "ipmi-chassis", "-D", "LAN_2_0", "-I", "3", "-h", "127.0.0.1:"+port, "-u", "admin", "-p", "s3cret-pass", "-l", "ADMIN", "-W", "opensesspriv", "--get-chassis-status")
	}
	fence := func(action string) string {
		return run(t, "fence_ipmilan", "-P", "-C", "3", "-a", "127.0.0.1", "-u", port, "-l", "admin", "-p", "s3cret-pass", "-o", action)
	}
	for _, want := range []driver.PowerState{driver.PowerOn, driver.PowerOff} {
		if err := d.SetPower(t.Context(), f, n, want); err != nil {
			t.Fatal(err)
		}
		word := map[driver.PowerState]string{driver.PowerOn: "on", driver.PowerOff: "off"}[want]
		if out := chassis(); !strings.Contains(strings.Join(strings.Fields(out), " "), "System Power : "+word) {
			t.Errorf("after %q ipmi-chassis says %q", want, out)
		}
		if out := fence("status"); !strings.Contains(out, "Status: "+strings.ToUpper(word)) {
			t.Errorf("after %q fence_ipmilan says %q", want, out)
		}
	}
	fence("on")
	if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOn || !c.On() {
		t.Errorf("after fence_ipmilan: %q, %v", state, err)
	}
	if out := run(t, "ipmipower", "-D", "LAN_2_0", "-I", "3", "-h", "127.0.0.1:"+port, "-u", "admin", "-p", "s3cret-pass", "-l", "ADMIN", "-W", "opensesspriv", "--off"); !strings.Contains(out, "ok") {
		t.Errorf("ipmipower says %q", out)
	}
	if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOff {
		t.Errorf("after ipmipower: %q, %v", state, err)
	}
}

// serveByPyghmi is pyghmi's own BMC on a port of loopback.
const serveByPyghmi = `
import sys
from pyghmi.cmd import fakebmc
fakebmc.FakeBmc({"admin": "s3cret-pass"}, port=int(sys.argv[1])).listen()
`

// The driver speaks to the BMC that pyghmi has for tests: another implementation of RMCP+ on the other end.
func TestBMCOfPyghmi(t *testing.T) {
	t.Parallel()
	needs(t, "fakebmc")
	at := free(t)
	port := strconv.Itoa(int(at.Port()))
	var said bytes.Buffer
	cmd := exec.Command("/usr/bin/python3", "-c", serveByPyghmi, port)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	d, n, f := newDriver(t), nodeAt(at.Port(), "s3cret-pass", nil), &drivertest.Fence{}
	state, err := d.PowerState(t.Context(), n)
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); { // it starts
		state, err = d.PowerState(t.Context(), n)
	}
	if err != nil || state != driver.PowerOff {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("at first: %q, %v: %.2000s", state, err, said.String())
	}
	if err := d.SetPower(t.Context(), f, n, driver.PowerOn); err != nil {
		t.Error(err)
	}
	if err := d.SetBootDevice(t.Context(), f, n, driver.BootPXE, false); err != nil {
		t.Error(err)
	}
	if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != string(driver.BootPXE) {
		t.Errorf("boot device %+v, %v", is, err)
	}
	if out := run(t, "ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", port, "-U", "admin", "-P", "s3cret-pass", "power", "status"); !strings.Contains(out, "is on") {
		t.Errorf("ipmitool says %q", out)
	}
}
