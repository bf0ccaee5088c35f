package paramdisk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// machine is one with a disk of a kind, as sysfs shows it.
func machine(t *testing.T, name, place string, sectors int, boot []byte) Machine {
	t.Helper()
	root := t.TempDir()
	at := filepath.Join(root, "sys/devices", place, name)
	for _, dir := range []string{at, filepath.Join(root, "sys/block"), filepath.Join(root, "dev")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.WriteFile(filepath.Join(at, "size"), fmt.Appendln(nil, sectors), 0o600), os.Symlink(filepath.Join("../devices", place, name), filepath.Join(root, "sys/block", name)),
		os.WriteFile(filepath.Join(root, "dev", name), boot, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return Machine{root}
}

// labelled is a boot sector as mkfs.fat writes it.
func labelled(label string) []byte {
	b := make([]byte, 512)
	b[38], b[510], b[511] = 0x29, 0x55, 0xaa
	copy(b[43:], fmt.Sprintf("%-11s", label))
	return b
}

const usb, sata = "pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/host6/target6:0:0/6:0:0:0/block", "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block"

// A disk of the machine's own, which a former user may have written, is none of a BMC's.
func TestWhichDiskIsIt(t *testing.T) {
	for name, c := range map[string]struct {
		disk, place string
		sectors     int
		boot        []byte
		is          bool
	}{
		"a stick":           {"sdb", usb, 2880, labelled("ir-vfd-dev"), true},
		"in capitals":       {"sdb", usb, 2880, labelled("IR-VFD-DEV"), true},
		"a floppy disk":     {"fd0", "platform/floppy.0/block", 2880, labelled("ir-vfd-dev"), true},
		"another label":     {"sdb", usb, 2880, labelled("tools"), false},
		"no label":          {"sdb", usb, 2880, make([]byte, 512), false},
		"a short disk":      {"sdb", usb, 1, nil, false},
		"an empty drive":    {"sdb", usb, 0, labelled("ir-vfd-dev"), false},
		"a disk inside":     {"sda", sata, 2880, labelled("ir-vfd-dev"), false},
		"a large USB disk":  {"sdb", usb, most/512 + 1, labelled("ir-vfd-dev"), false},
		"the largest stick": {"sdb", usb, most / 512, labelled("ir-vfd-dev"), true},
	} {
		m := machine(t, c.disk, c.place, c.sectors, c.boot)
		if got, is := m.find(); is != c.is || is && got != filepath.Join(m.Root, "dev", c.disk) {
			t.Errorf("%s: %q, %t", name, got, is)
		}
	}
}

// A disk that does not come is waited for, but not for ever.
func TestNoDisk(t *testing.T) {
	m := machine(t, "sda", sata, 2880, labelled(label))
	synctest.Test(t, func(t *testing.T) {
		if _, err := m.Words(t.Context(), slog.New(slog.DiscardHandler)); !errors.Is(err, ErrNone) {
			t.Error(err)
		}
	})
}
