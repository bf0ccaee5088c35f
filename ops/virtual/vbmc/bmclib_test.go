package vbmc

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"
)

// bmclib's client, which is not ours, tells the BMC what Tinkerbell tells one. It is a program of another Go module, for bmclib and rackd
// need gofish of different versions.
func TestBMCLib(t *testing.T) {
	t.Parallel()
	_, computer, address := serve(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "bmclibclient")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "bmclibclient"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	const want = "boot device set\npower set\npower state on\n"
	out, err := exec.CommandContext(t.Context(), program, host, port, "admin", "secret-word").CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	if device, once := computer.BootOverride(); device != Network || !once || !computer.On() {
		t.Errorf("override %q, once %t, on %t", device, once, computer.On())
	}
}
