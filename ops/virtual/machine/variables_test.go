package machine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/uefivars"
)

const testMAC = "52:54:00:99:00:01"

// wanted returns the descriptions of the boot order, and that of the next boot.
func wanted(t *testing.T, m *Machine) (order []string, next string) {
	t.Helper()
	s, err := m.Variables()
	if err != nil {
		t.Fatal(err)
	}
	options, err := s.BootOptions()
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := s.BootOrder()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		order = append(order, options[n].Description)
	}
	if n, ok, err := s.BootNext(); err != nil {
		t.Fatal(err)
	} else if ok {
		next = options[n].Description + " " + options[n].Path.URI()
	}
	return order, next
}

func TestVariablesOfAMachineThatIsOff(t *testing.T) {
	m := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, Tap: "tap0", MAC: testMAC, DiskMiB: 16, DefaultBoot: Network, BootByVariables: true})
	if order, next := wanted(t, m); !slices.Equal(order, []string{networkDescription, diskDescription}) || next != "" {
		t.Errorf("a new machine's order is %q, next %q", order, next)
	}
	if err := m.SetBootOverride(Disk, true); err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"http://10.0.0.1/a", "http://10.0.0.1/b"} {
		if err := m.SetBootNext(m.HTTPOption(uri)); err != nil {
			t.Fatal(err)
		}
	}
	if device, _ := m.BootOverride(); device != "" {
		t.Errorf("the override %s goes before what was asked for after it", device)
	}
	if err := m.SetBootOrder(m.DiskOption()); err != nil {
		t.Fatal(err)
	}
	if order, next := wanted(t, m); !slices.Equal(order, []string{diskDescription, networkDescription}) || next != httpDescription+" http://10.0.0.1/b" {
		t.Errorf("order %q, next %q", order, next)
	}
	s, err := m.Variables()
	if err != nil {
		t.Fatal(err)
	}
	if options, err := s.BootOptions(); err != nil || len(options) != 3 {
		t.Errorf("options %v, %v; the first URI's should be gone", options, err)
	}
	if err := m.SetSecureBoot(true); !errors.Is(err, ErrNoSecureBoot) {
		t.Errorf("secure boot: %v", err)
	}
	failed := errors.New("failed")
	err = m.EditVariables(func(s *uefivars.Store) error { return errors.Join(s.ClearBootNext(), failed) })
	if _, next := wanted(t, m); !errors.Is(err, failed) || next == "" {
		t.Errorf("an edit that failed (%v) was kept: next boot %q", err, next)
	}
}

// The override becomes the next boot. One for good does not take the place of a next
// boot that was asked for by itself; one for one boot does.
func TestOverrideByVariables(t *testing.T) {
	m := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, Tap: "tap0", MAC: testMAC, DiskMiB: 16, BootByVariables: true})
	act := func(want string) {
		t.Helper()
		if err := m.override(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, next := wanted(t, m); next != want {
			t.Errorf("next boot %q, want %q", next, want)
		}
	}
	act("")
	if err := m.SetBootOverride(Network, false); err != nil {
		t.Fatal(err)
	}
	act(networkDescription + " ")
	if err := m.SetBootNext(m.HTTPOption("http://10.0.0.1/a")); err != nil {
		t.Fatal(err)
	}
	act(httpDescription + " http://10.0.0.1/a")
	if err := m.SetBootOverride(Disk, true); err != nil {
		t.Fatal(err)
	}
	act(diskDescription + " ")
	// The machine was switched off before its firmware came to that one, for good or not.
	for _, once := range []bool{true, false} {
		if err := m.SetBootOverride(Network, once); err != nil {
			t.Fatal(err)
		}
		act(networkDescription + " ")
		if err := m.SetBootOverride(Disk, false); err != nil {
			t.Fatal(err)
		}
		act(diskDescription + " ")
	}
	if err := m.SetBootOverride("", false); err != nil {
		t.Fatal(err)
	}
	act("")
}

// Firmware that was stopped while it compacted its variables has to run before they
// can be changed. So an override does not keep the machine from starting: it waits.
func TestOverrideWaitsForFirmware(t *testing.T) {
	m := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, MemoryMiB: 256, DiskMiB: 16, BootByVariables: true, DieWithParent: true})
	f, err := os.OpenFile(filepath.Join(m.Config().Dir, varsFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	const journal = 0x41000 + 32              // the queue of writes of OVMF's 4 MiB layout
	_, err = f.WriteAt([]byte{0xfe}, journal) // allocated, not complete
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := m.SetBootNext(m.DiskOption()); !errors.Is(err, uefivars.ErrInterrupted) {
		t.Errorf("next boot: %v, want ErrInterrupted", err)
	}
	if err := m.SetBootOverride(Disk, true); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if device, once := m.BootOverride(); device != Disk || !once {
		t.Errorf("the override is %q, once %t", device, once)
	}
}

func TestVariablesRefused(t *testing.T) {
	bios := open(t, testConfig(t, nil))
	if _, err := bios.Variables(); !errors.Is(err, ErrNoVariables) {
		t.Errorf("variables of BIOS: %v", err)
	}
	m := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, DiskMiB: 16})
	if err := m.SetBootNext(m.DiskOption()); !errors.Is(err, ErrOrderByQEMU) {
		t.Errorf("next boot beside QEMU's order: %v", err)
	}
	if err := m.EditVariables(func(*uefivars.Store) error { return nil }); err != nil {
		t.Errorf("other variables: %v", err)
	}
	path := filepath.Join(m.Config().Dir, varsFile)
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Variables(); !errors.Is(err, uefivars.ErrLayout) {
		t.Errorf("a file cut off: %v", err)
	}
	for what, cfg := range map[string]Config{
		"BIOS by variables":     {Firmware: BIOS, BootByVariables: true},
		"BIOS with secure boot": {Firmware: BIOS, SecureBoot: true},
		"BIOS with a store":     {Firmware: BIOS, VariablesFrom: "x"},
		"no such store":         {Firmware: UEFI, VariablesFrom: "/nonexistent"},
	} {
		cfg.Name, cfg.Dir, cfg.DiskMiB = "u", t.TempDir(), 16
		if m, err := Open(t.Context(), cfg); err == nil {
			m.Close()
			t.Errorf("%s: accepted", what)
		}
	}
}

// Where QEMU's order holds, its command line is what it was before.
func TestBootIndexes(t *testing.T) {
	for _, c := range []struct {
		firmware    Firmware
		byVariables bool
		first       string
		want        string
	}{
		{UEFI, false, Disk, "serial=,bootindex=0|mac=" + testMAC + ",romfile=,bootindex=1"},
		{UEFI, false, Network, "serial=,bootindex=1|mac=" + testMAC + ",romfile=,bootindex=0"},
		{BIOS, false, Network, "serial=,bootindex=1|mac=" + testMAC + ",bootindex=0"},
		{UEFI, true, Network, "serial=,addr=0x2|mac=" + testMAC + ",romfile=,addr=0x3"},
		{BIOS, false, Media, "id=cd,bootindex=0|serial=,bootindex=1|mac=" + testMAC + ",bootindex=2"},
		{UEFI, true, Media, "ide-cd,bus=ide.0,id=cd |serial=,addr=0x2"},
	} {
		args := strings.Join(Config{Firmware: c.firmware, MAC: testMAC, Tap: "tap0", BootByVariables: c.byVariables}.arguments(c.first, false, 3), " ")
		for _, want := range strings.Split(c.want, "|") {
			if !strings.Contains(args, want) {
				t.Errorf("%s, by variables %t, first %s: no %s in %s", c.firmware, c.byVariables, c.first, want, args)
			}
		}
	}
}

// A machine without a disk has none in QEMU's words, in its folder and in its boot order, and is not told to boot one.
func TestAMachineWithoutADisk(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Name: "bare", Dir: dir, Firmware: UEFI, Tap: "tap0", MAC: testMAC, Diskless: true, BootByVariables: true})
	if order, _ := wanted(t, m); !slices.Equal(order, []string{networkDescription}) {
		t.Errorf("its boot order is %q", order)
	}
	if args := strings.Join(m.cfg.arguments(Network, false, 3), " "); strings.Contains(args, "virtio-blk") || strings.Contains(args, "drive=disk") {
		t.Errorf("QEMU is told of a disk: %s", args)
	}
	if _, err := os.Stat(m.DiskPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder has a disk (%v)", err)
	}
	if err := m.SetBootOverride(Disk, true); !errors.Is(err, ErrNoDisk) {
		t.Errorf("told to boot its disk: %v", err)
	}
	for _, c := range []Config{{DiskMiB: 1}, {DiskFormat: Raw}, {DiskSerial: "s"}, {DefaultBoot: Disk}} {
		c.Name, c.Dir, c.Firmware, c.Diskless = "bare", dir, UEFI, true
		if _, err := c.withDefaults(); err == nil || !strings.Contains(err.Error(), "it has no disk") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What the firmware writes to its console at this start tells how far it is. What it wrote at an earlier one does not.
func TestProgress(t *testing.T) {
	if _, err := open(t, Config{Name: "b", Dir: t.TempDir(), Firmware: BIOS}).Progress(); !errors.Is(err, ErrNoProgress) {
		t.Errorf("BIOS: %v", err)
	}
	m := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI})
	if far, err := m.Progress(); far != Off || err != nil {
		t.Errorf("off: %v, %v", far, err)
	}
	m.proc = &process{}
	defer func() { m.proc = nil }()
	for _, c := range []struct {
		console string
		from    int64
		want    Progress
	}{{"", 0, InFirmware}, {"BdsDxe: starting Boot0001", 30, InFirmware}, {"Virtual\r\nBdsDxe: loading Boot0001 \"x\"", 0, Booting}} {
		m.state.Console = c.from
		if c.console != "" {
			if err := os.WriteFile(m.Serial(0).Path(), []byte(c.console), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if far, err := m.Progress(); far != c.want || err != nil {
			t.Errorf("%q from %d: %v, %v; want %v", c.console, c.from, far, err, c.want)
		}
	}
}
