package efiboot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ironyard/ironyard/agent/partition"
)

var esp = partition.Partition{Number: 1, GUID: "01020304-0506-0708-090A-0B0C0D0E0F10", Start: 1 << 20, Size: 64 << 20}

// golden is laid out by hand from the tables of UEFI 2.10.
const golden = "01000000" + "5e00" + "690072006f006e0079006100720064000000" +
	"04012a00" + "01000000" + "0008000000000000" + "0000020000000000" + "0403020106050807090a0b0c0d0e0f10" + "0202" +
	"04043000" + "5c004500460049005c0042004f004f0054005c0042004f004f0054005800360034002e004500460049000000" + "7fff0400"

func TestLoadOption(t *testing.T) {
	got, err := loadOption(Label, esp, 512, `\EFI\BOOT\BOOTX64.EFI`)
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(got) != golden {
		t.Errorf("got  %x\nwant %s", got, golden)
	}
}

// The loader of the removable-media path is that of the architecture that this program was built for.
func TestLoaderOfTheArchitecture(t *testing.T) {
	want, ok := map[string]string{"amd64": `\EFI\BOOT\BOOTX64.EFI`, "arm64": `\EFI\BOOT\BOOTAA64.EFI`}[runtime.GOARCH]
	if !ok {
		t.Fatalf("UEFI 2.10, section 3.5.1.1, is not known here for %s", runtime.GOARCH)
	}
	if got := Loader(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func variable(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, vars(dir).name(name)), append([]byte{7, 0, 0, 0}, data...), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	other, err := loadOption("UEFI PXE", esp, 512, `\x`)
	if err != nil {
		t.Fatal(err)
	}
	variable(t, dir, "Boot0000", other)
	variable(t, dir, "Boot0002", other)
	variable(t, dir, "BootOrder", []byte{2, 0, 0, 0})
	for range 3 { // again and again gives one entry
		n, err := Install(dir, esp, 512, `\EFI\BOOT\BOOTX64.EFI`, First)
		if err != nil || n != 1 {
			t.Fatalf("entry %d, %v", n, err)
		}
	}
	order, err := vars(dir).read("BootOrder")
	if err != nil || !bytes.Equal(order, []byte{1, 0, 2, 0, 0, 0}) {
		t.Errorf("boot order %x, %v", order, err)
	}
	got, err := vars(dir).read("Boot0001")
	if err != nil || hex.EncodeToString(got) != golden {
		t.Errorf("entry %x, %v", got, err)
	}
	if kept, _ := vars(dir).read("Boot0000"); !bytes.Equal(kept, other) {
		t.Error("another's entry changed")
	}
}

// A machine that is to ask the network at each start keeps the entry by which it did so now before that of its disk.
func TestInstallBehindWhatWasBooted(t *testing.T) {
	for name, c := range map[string]struct{ current, order, want []byte }{
		"in the order":          {[]byte{2, 0}, []byte{4, 0, 2, 0, 0, 0}, []byte{4, 0, 2, 0, 1, 0, 0, 0}},
		"its last":              {[]byte{0, 0}, []byte{4, 0, 2, 0, 0, 0}, []byte{4, 0, 2, 0, 0, 0, 1, 0}},
		"chosen for once":       {[]byte{5, 0}, []byte{4, 0, 2, 0}, []byte{5, 0, 1, 0, 4, 0, 2, 0}},
		"not known":             {nil, []byte{4, 0, 2, 0}, []byte{4, 0, 2, 0, 1, 0}},
		"behind ours of before": {[]byte{2, 0}, []byte{1, 0, 2, 0}, []byte{2, 0, 1, 0}},
	} {
		dir := t.TempDir()
		other, err := loadOption("UEFI PXE", esp, 512, `\x`)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []string{"Boot0000", "Boot0002", "Boot0004"} {
			variable(t, dir, n, other)
		}
		if name == "behind ours of before" {
			ours, err := loadOption(Label, esp, 512, `\old`)
			if err != nil {
				t.Fatal(err)
			}
			variable(t, dir, "Boot0001", ours)
		}
		variable(t, dir, "BootOrder", c.order)
		if c.current != nil {
			variable(t, dir, "BootCurrent", c.current)
		}
		if n, err := Install(dir, esp, 512, Loader(), BehindBooted); err != nil || n != 1 {
			t.Errorf("%s: entry %d, %v", name, n, err)
		}
		if order, err := vars(dir).read("BootOrder"); err != nil || !bytes.Equal(order, c.want) {
			t.Errorf("%s: boot order %x, %v; want %x", name, order, err, c.want)
		}
	}
}

func TestInstallWithoutUEFI(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		if _, err := Install(dir, esp, 512, Loader(), First); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%v, want ErrUnsupported", err)
		}
	}
}
