package vbmc

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// run runs a foreign program to its end, and returns what it says. Exit code 2 of a fence agent says that the machine is off.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + t.TempDir()}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2) {
		t.Fatalf("%s %v: %v: %s", name, args, err, out.String())
	}
	return out.String()
}

// The fence agent of clusters and DMTF's redfishtool take the virtual BMC for a BMC.
func TestFenceAgentAndRedfishtool(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's packages fence-agents and redfishtool; set IRONYARD_E2E=1")
	}
	_, computer, address := serve(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	fence := func(action string) string {
		return run(t, "fence_redfish", "-a", host, "-u", port, "-l", "admin", "-p", "secret-word", "--ssl-insecure", "--systems-uri", systemPath, "-o", action)
	}
	for _, action := range []string{"on", "off"} {
		on := action == "on"
		if out := fence(action); computer.On() != on {
			t.Errorf("fence_redfish %s says %q, and the machine is on: %t", action, out, computer.On())
		}
		want := "OFF"
		if on {
			want = "ON"
		}
		if out := fence("status"); !strings.Contains(out, "Status: "+want) {
			t.Errorf("after %s fence_redfish says %q", action, out)
		}
	}
	tool := func(args ...string) string {
		return run(t, "redfishtool", append([]string{"-r", address, "-u", "admin", "-p", "secret-word", "-S", "Always", "-A", "Session"}, args...)...)
	}
	if err := computer.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	tool("Systems", "-F", "reset", "On")
	if !computer.On() {
		t.Error("redfishtool has not switched the machine on")
	}
	if out := tool("Systems", "-F", "get"); !strings.Contains(out, `"PowerState": "On"`) {
		t.Errorf("redfishtool says %.600q", out)
	}
}
