package redfish

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Who may write driver_info names no file of rackd's machine: neither one that never ends
// or never begins, nor one whose error would tell whether it exists.
func TestVerifyCANamesNoFileOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(dir, "there.pem")
	if err := os.WriteFile(there, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, said := newDriver(t, Options{}), map[string]bool{}
	for _, name := range []string{fifo, "/dev/zero", there, filepath.Join(dir, "missing.pem"), "../../../../dev/zero", dir, "/proc/self/environ"} {
		err := d.Validate(&node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: "https://bmc.example", fieldVerifyCA: name}})
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
			continue
		}
		said[strings.ReplaceAll(err.Error(), name, "NAME")] = true
	}
	if len(said) != 1 {
		t.Errorf("errors differ by what is there: %v", said)
	}
}

// A name below the folder of the operator's works, and is asked for when the BMC is.
func TestVerifyCANamesAFileOfTheFolder(t *testing.T) {
	e, dir := newEmulator(t), t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "rack.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, Options{CAFolder: namedfile.Folder(dir)})
	for _, name := range []string{"rack.pem", filepath.Join(dir, "rack.pem")} {
		n := e.node(map[string]any{fieldVerifyCA: name})
		if err := d.Validate(n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := d.PowerState(t.Context(), n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := newDriver(t, Options{}).PowerState(t.Context(), e.node(map[string]any{fieldVerifyCA: "rack.pem"})); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fieldVerifyCA) {
		t.Errorf("without a folder: %v", err)
	}
}

// Who may enrol a node cannot have rackd knock at its own machine's doors, nor at others
// than the operator named.
func TestBMCsAreWhereTheOperatorHasThem(t *testing.T) {
	e := newEmulator(t)
	asked := false
	e.set(func() { e.hook = func(http.ResponseWriter, *http.Request) bool { asked = true; return false } })
	_, port, _ := strings.Cut(strings.TrimPrefix(e.URL, "https://"), ":")
	for name, networks := range map[string]outbound.BMCs{"by default": {}, "named": {netip.MustParsePrefix("10.0.0.0/8")}} {
		d := newDriver(t, Options{Networks: networks})
		for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
			n := e.node(map[string]any{fieldAddress: "https://" + host + ":" + port})
			if _, err := d.PowerState(t.Context(), n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "--bmc-networks") {
				t.Errorf("%s, %s: %v", name, host, err)
			}
			if err := d.Validate(n); host != "localhost" && !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: validate of %s: %v", name, host, err)
			}
		}
	}
	if asked {
		t.Error("a server on this machine was asked")
	}
}
