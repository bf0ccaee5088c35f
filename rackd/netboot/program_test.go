package netboot_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// padded is iPXE as a program of so many bytes. Firmware loads what follows a program in its file, and does not run it.
func padded(t *testing.T, size int64) string {
	t.Helper()
	body, err := os.ReadFile("/usr/lib/ipxe/ipxe.efi")
	if err != nil {
		t.Fatalf("%v (Debian's package ipxe has it)", err)
	}
	path := filepath.Join(t.TempDir(), "program.efi")
	if err := errors.Join(os.WriteFile(path, body, 0o644), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFirmwareLoadsTheProgram has OVMF load a program for x64 by its own PXE client. It asks for windows of blocks.
func TestFirmwareLoadsTheProgram(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" || os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: boots machines in QEMU for minutes: run `make hardware`, or set IRONYARD_E2E=1 and IRONYARD_HARDWARE=1")
	}
	if !inNamespace(t) {
		return
	}
	const size, windows = 16 << 20, "\x00windowsize\x004\x00"
	if asked := loadsProgram(t, size); !strings.Contains(asked, windows) {
		t.Errorf("the firmware asked for %q", asked)
	}
}

// loadsProgram boots a machine until its program runs. It returns the request by which the firmware asked for it.
func loadsProgram(t *testing.T, size int64) (request string) {
	t.Helper()
	m := ramdiskMachine
	m.Order.Direct = true
	var mu sync.Mutex
	w := worldWith(t, m, "/usr/lib/ipxe/ipxe.efi", func(s *setting) {
		s.uki = padded(t, size)
		s.asks = func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(string(b), "\x00tsize\x00") && strings.Contains(string(b), "ramdisk.efi") {
				request = string(b)
			}
		}
	})
	began := time.Now()
	w.boot(ovmf(t)...)
	w.phases("dhcp: 10.78.0.", "tftp: ramdisk.efi")
	asked := time.Since(began)
	w.says(fmt.Sprintf("NBP filesize is %d Bytes", size))
	w.says("iPXE initialising devices")
	t.Logf("the firmware asked for the program after %.1f s, and it ran after %.1f s", asked.Seconds(), time.Since(began).Seconds())
	mu.Lock()
	defer mu.Unlock()
	return request
}
