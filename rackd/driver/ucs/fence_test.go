package ucs

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// fence_cisco_ucs, the fence agent of clusters, sees what the driver did, and the driver sees what the agent has done.
// It does so to one profile, and the other stays as it was. The agent logs out.
func TestFenceAgentOfUCS(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package fence-agents; set IRONYARD_E2E=1")
	}
	s, d := newChassis(t), newDriver(t)
	n, f := nodeOf(s, nil), &drivertest.Fence{}
	other := nodeOf(s, map[string]any{fieldProfile: "org-root/ls-web2"})
	host, port := s.HostPort()
	run := func(password, action string) (string, error) {
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "fence_cisco_ucs", "-a", host, "-u", port, "-l", "admin", "-p", password, "--ssl-insecure", "-n", "web1", "-o", action)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + t.TempDir()}
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 2 { // the machine is off
			err = nil
		}
		return out.String(), err
	}
	agent := func(action string) string {
		t.Helper()
		out, err := run("s3cret", action)
		if err != nil {
			t.Fatalf("fence_cisco_ucs %s: %v: %s", action, err, out)
		}
		return out
	}
	for _, state := range []driver.PowerState{driver.PowerOn, driver.PowerOff} {
		word := map[driver.PowerState]string{driver.PowerOn: "ON", driver.PowerOff: "OFF"}[state]
		if err := d.SetPower(t.Context(), f, n, state); err != nil {
			t.Fatal(err)
		}
		if out := agent("status"); !strings.Contains(out, "Status: "+word) {
			t.Errorf("after %q fence_cisco_ucs says %q", state, out)
		}
	}
	for _, action := range []string{"on", "off"} {
		agent(action)
		want := map[string]driver.PowerState{"on": driver.PowerOn, "off": driver.PowerOff}[action]
		if state, err := d.PowerState(t.Context(), n); err != nil || state != want {
			t.Errorf("after fence_cisco_ucs %s: %q, %v", action, state, err)
		}
		if state, err := d.PowerState(t.Context(), other); err != nil || state != driver.PowerOff {
			t.Errorf("after fence_cisco_ucs %s the other profile's machine is %q, %v", action, state, err)
		}
	}
	if out, err := run("another", "status"); err == nil {
		t.Errorf("with a wrong password fence_cisco_ucs says %q", out)
	}
	s.Set(func() {
		if s.Logouts != 4 || len(s.Cookies) != 1 || s.Refused != 1 {
			t.Errorf("%d log-outs, %d sessions, %d refused logins; want 4 of the agent, 1 of the driver, 1", s.Logouts, len(s.Cookies), s.Refused)
		}
	})
}
