package snmp

import (
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// fence_apc_snmp, the fence agent of clusters, sees on an APC MasterSwitch what the driver did, and the driver sees what it has done.
func TestFenceAgentOfAPC(t *testing.T) {
	judges(t)
	s := newNetSNMP(t, outlets["apc_masterswitch"], "rwcommunity private\n")
	d := quick(t, patient)
	n := nodeAt(s.address(), "apc_masterswitch", map[string]any{fieldCommunityWrite: "private"})
	f := &drivertest.Fence{}
	agent := func(action string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "fence_apc_snmp", "-a", "127.0.0.1", "-u", strconv.Itoa(s.port), "-d", "2c", "-c", "private", "-n", "3", "-o", action)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2) { // 2: it is off
			t.Fatalf("fence_apc_snmp %s: %v: %s", action, err, out.String())
		}
		return out.String()
	}
	for _, state := range []driver.PowerState{driver.PowerOn, driver.PowerOff} {
		word := map[driver.PowerState]string{driver.PowerOn: "ON", driver.PowerOff: "OFF"}[state]
		if err := d.SetPower(t.Context(), f, n, state); err != nil {
			t.Fatal(err)
		}
		if out := agent("status"); !strings.Contains(out, "Status: "+word) {
			t.Errorf("after %q fence_apc_snmp says %q", state, out)
		}
	}
	agent("on")
	if state, err := d.PowerState(t.Context(), n); err != nil || state != driver.PowerOn {
		t.Errorf("after fence_apc_snmp: %q, %v", state, err)
	}
}
