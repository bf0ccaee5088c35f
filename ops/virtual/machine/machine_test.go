package machine

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sector is a boot sector that prints text on the serial line and then runs code.
func sector(text string, code ...byte) []byte {
	s := []byte{0xba, 0xf8, 0x03} // mov dx, 0x3f8
	for _, c := range []byte("\n" + text + "\n") {
		s = append(s, 0xb0, c, 0xee) // mov al, c; out dx, al
	}
	s = append(append(s, code...), 0xf4, 0xeb, 0xfd) // hlt; jmp to it
	s = append(s, make([]byte, 510-len(s))...)
	return append(s, 0x55, 0xaa)
}

var (
	reset    = []byte{0xb0, 0xfe, 0xe6, 0x64}                   // keyboard controller: reset
	powerOff = []byte{0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef} // ACPI PM1a: S5
)

// testConfig is a BIOS machine without a network whose disk starts with boot.
func testConfig(t *testing.T, boot []byte) Config {
	t.Helper()
	// Deeper than a socket's path may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep", 20))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	disk := append(boot, make([]byte, 1<<20-len(boot))...)
	if err := os.WriteFile(filepath.Join(dir, diskFile), disk, 0o644); err != nil {
		t.Fatal(err)
	}
	return Config{Name: "m", Dir: dir, Firmware: BIOS, MemoryMiB: 64, DieWithParent: true}
}

func open(t *testing.T, cfg Config) *Machine {
	t.Helper()
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(context.Background()); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func waitSerial(t *testing.T, s *SerialLog, pattern string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	line, err := s.Wait(ctx, regexp.MustCompile(pattern))
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func waitOff(t *testing.T, m *Machine) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(30 * time.Second)
	for m.On() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatal("machine stays on")
		}
	}
}

func TestPowerAndOneShot(t *testing.T) {
	m := open(t, testConfig(t, sector("SECTOR")))
	if m.On() {
		t.Fatal("a new machine is on")
	}
	if err := m.Reset(t.Context()); !errors.Is(err, ErrOff) {
		t.Errorf("reset while off: %v, want ErrOff", err)
	}
	for _, device := range []string{"floppy", "Disk"} {
		if err := m.SetBootOverride(device, true); err == nil {
			t.Errorf("boot device %q accepted", device)
		}
	}
	if err := m.SetBootOverride(Network, true); err != nil {
		t.Fatal(err)
	}
	serial := m.Serial(0)
	for range 2 { // the second start finds it on
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if device, _ := m.BootOverride(); device != "" {
		t.Errorf("one-shot override %q survived the start", device)
	}
	if err := m.SetBootOverride(Disk, false); err != nil {
		t.Fatal(err)
	}
	waitSerial(t, serial, "SECTOR")
	if err := m.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitSerial(t, serial, "SECTOR")
	if device, once := m.BootOverride(); device != Disk || once {
		t.Errorf("continuous override is %q, once=%t after a reset", device, once)
	}
	if err := m.Interrupt(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := m.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if live, err := Running(m.Config().Dir); live || err != nil {
		t.Errorf("running after stop: %t, %v", live, err)
	}
}

func TestGuestRebootsByTheOrderOfNow(t *testing.T) {
	m := open(t, testConfig(t, sector("REBOOT", reset...)))
	serial := m.Serial(0)
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitSerial(t, serial, "REBOOT")
	if err := m.SetBootOverride(Network, true); err != nil {
		t.Fatal(err)
	}
	waitSerial(t, serial, "REBOOT")
	waitSerial(t, serial, "REBOOT")
	if device, _ := m.BootOverride(); device != "" {
		t.Errorf("the guest's reboot did not use up the override %q", device)
	}
}

func TestGuestPowersOff(t *testing.T) {
	m := open(t, testConfig(t, sector("OFF", powerOff...)))
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitOff(t, m)
	if m.state.On {
		t.Error("machine is off but meant to be on")
	}
}

func TestFoundAgain(t *testing.T) {
	cfg := testConfig(t, sector("SECTOR"))
	first := open(t, cfg)
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := first.state.PID
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.Start(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("start after close: %v, want ErrClosed", err)
	}
	if live, err := Running(cfg.Dir); !live || err != nil {
		t.Fatalf("running without a controller: %t, %v", live, err)
	}
	second := open(t, cfg)
	if !second.On() || second.state.PID != pid {
		t.Fatalf("found again: on %t, process %d, want %d", second.On(), second.state.PID, pid)
	}
	console, err := second.Console(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	if err := second.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, console); err != nil {
		t.Logf("console of the old process ended: %v", err)
	}
	if second.state.PID == pid {
		t.Error("reset kept the process")
	}
}

func TestBadConfigs(t *testing.T) {
	good := Config{Name: "m", Dir: t.TempDir(), Firmware: BIOS}
	for what, change := range map[string]func(*Config){
		"name":     func(c *Config) { c.Name = "a,b" },
		"folder":   func(c *Config) { c.Dir = "" },
		"firmware": func(c *Config) { c.Firmware = "coreboot" },
		"MAC":      func(c *Config) { c.Tap, c.MAC = "tap0", "x" },
		"cards": func(c *Config) {
			c.Tap, c.MAC, c.FurtherCards = "tap0", "52:54:00:00:00:01", []Card{{MAC: "52:54:00:00:00:02", Tap: "a,b"}}
		},
		"serial": func(c *Config) { c.Serial = "a,b=c" },
		"format": func(c *Config) { c.DiskFormat = "vmdk" },
		"boot":   func(c *Config) { c.DefaultBoot = "floppy" },
		"disk":   func(c *Config) { c.DiskSerial = strings.Repeat("x", 21) },
	} {
		bad := good
		change(&bad)
		if m, err := Open(t.Context(), bad); err == nil {
			m.Close()
			t.Errorf("bad %s accepted", what)
		}
	}
	missing := testConfig(t, nil)
	missing.Command = nil
	missing.MemoryMiB = -1
	m := open(t, missing)
	if err := m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "-1") {
		t.Errorf("error of a QEMU that refuses its arguments: %v", err)
	}
}
