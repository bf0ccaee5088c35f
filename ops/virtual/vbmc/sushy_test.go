package vbmc

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	//go:embed testdata/tell.py
	sushyProgram []byte
	//go:embed testdata/update.py
	sushyUpdates []byte
)

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

// sushy has the BMC write firmware of the BIOS, as Ironic does, and follows it to the machine's start.
func TestSushyUpdatesFirmware(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package python3-sushy; set IRONYARD_E2E=1")
	}
	b, computer, address := serve(t)
	at, fetched := serveFiles(t, map[string][]byte{"bios": FirmwareFile(BIOSFirmware, "3.1")})
	program := filepath.Join(t.TempDir(), "update.py")
	if err := os.WriteFile(program, sushyUpdates, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", program, "https://"+address, "admin", "secret-word", at("bios"))
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	tell, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		fmt.Fprintln(&out, lines.Text())
		if strings.HasPrefix(lines.Text(), "waits") {
			if err := errors.Join(computer.Start(t.Context()), json.NewEncoder(tell).Encode("started")); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := `lists BIOS 1.0.0 BMC 1.0.0
works True OK
waits Pending OK
ends Completed 100
bios 3.1
`
	if err := cmd.Wait(); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
	}
	if fetched() != 1 || len(b.Flashes()) != 1 {
		t.Errorf("fetched %d times; written was %v", fetched(), b.Flashes())
	}
}
