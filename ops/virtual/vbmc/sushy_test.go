package vbmc

import (
	_ "embed"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/tell.py
var sushyProgram []byte

// sushy is the library by which Ironic speaks Redfish. It knows no boot URI in Debian 12.
func TestSushy(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package python3-sushy; set IRONYARD_E2E=1")
	}
	_, computer, address := serveEquipped(t)
	computer.iscsi = ISCSIBoot{Initiator: "iqn.2026-11.org.example:m", Address: netip.MustParsePrefix("10.0.0.9/24"),
		Targets: []ISCSITarget{{"iqn.2026-11.org.example:t", netip.MustParseAddrPort("10.0.0.1:3260"), 1}}, CHAP: &CHAP{Name: "me", Secret: "my-own-secret"}}
	program := filepath.Join(t.TempDir(), "tell.py")
	if err := os.WriteFile(program, sushyProgram, 0o600); err != nil {
		t.Fatal(err)
	}
	// Debian's own, where its packages are, and without what may name certificates or a proxy.
	cmd := exec.Command("/usr/bin/python3", program, "https://"+address, "admin", "secret-word")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	want := `mode SetupMode enabled False now Disabled
resets DeleteAllKeys DeletePK ResetAllKeysToDefault
mode UserMode enabled True
databases KEK PK db dbx
inserted True http://10.0.0.1/a.iso
boot Cd Once
inserted False
refused True
iscsi IPv4 CHAP 10.0.0.1 3260 1 255.255.255.0
`
	if err != nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	if !computer.secure.Next || computer.image != "" {
		t.Errorf("the computer has secure boot %+v, image %q", computer.secure, computer.image)
	}
}
