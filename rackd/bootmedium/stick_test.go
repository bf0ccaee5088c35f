package bootmedium

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// As a disk, a stick has one partition, which is active. sfdisk finds it, fsck.fat nothing wrong there, and mtools the boot loader.
func TestAStickIsADisk(t *testing.T) {
	path, _, _, loader := written(t)
	var found struct {
		Table struct {
			Label      string
			Partitions []struct {
				Start, Size int64
				Type        string
				Bootable    bool
			}
		} `json:"partitiontable"`
	}
	if err := json.Unmarshal([]byte(tool(t, "sfdisk", "--json", path)), &found); err != nil {
		t.Fatal(err)
	}
	if found.Table.Label != "dos" || len(found.Table.Partitions) != 1 || found.Table.Partitions[0].Type != "ef" || !found.Table.Partitions[0].Bootable {
		t.Fatalf("sfdisk finds %+v", found)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at, size := found.Table.Partitions[0].Start*block, found.Table.Partitions[0].Size*block
	dir := t.TempDir()
	esp, out := filepath.Join(dir, "esp"), filepath.Join(dir, "out")
	if err := os.WriteFile(esp, whole[at:at+size], 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "fsck.fat", "-n", esp)
	tool(t, "mcopy", "-i", fmt.Sprintf("%s@@%d", path, at), "::EFI/BOOT/BOOTX64.EFI", out)
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, loader) {
		t.Errorf("mcopy reads %d bytes of %d of the boot loader, %v", len(got), len(loader), err)
	}
}

// A host whose GRUB lacks the boot sector makes no images for BIOS, and says which file is missing.
func TestAHostWithoutTheBootSector(t *testing.T) {
	if _, err := exec.LookPath("grub-mkimage"); err != nil {
		if os.Getenv("IRONYARD_E2E") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	root := t.TempDir()
	modules := filepath.Join(root, biosFolder)
	if err := os.MkdirAll(modules, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(modules, "cdboot.img"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(what string) {
		t.Helper()
		l := findLoader(t.Context(), root)
		defer l.Close()
		if err := l.Problem(BIOS); err == nil || !strings.Contains(err.Error(), hybridFile) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "grub-pc-bin") {
			t.Errorf("it says %v, and not %q", err, what)
		}
	}
	says("no such file")
	if err := os.WriteFile(filepath.Join(modules, hybridFile), random(100), 0o600); err != nil {
		t.Fatal(err)
	}
	says("has 100 bytes")
}

// The boot sector is GRUB's, but for the place of what it loads. That is GRUB's image, which knows where its rest is.
func TestABIOSStartsAStick(t *testing.T) {
	l, _ := made(t)
	m, err := l.Image(Contents{Kernel: fileOf(random(10)), Ramdisk: fileOf(random(10))})
	if err != nil {
		t.Fatal(err)
	}
	read := func(at int64, n int) []byte {
		t.Helper()
		b := make([]byte, n)
		if _, err := m.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := read(0, block)
	if !bytes.Equal(first[:codeEnd], l.mbr[:codeEnd]) || !bytes.Equal(first[510:], []byte{0x55, 0xaa}) {
		t.Error("the boot sector is not GRUB's")
	}
	at := binary.LittleEndian.Uint64(first[codeEnd:])
	if got := read(int64(at)*block, 500); !bytes.Equal(got, l.bios[sector:sector+500]) {
		t.Errorf("block %d, which the boot sector loads, holds something else than GRUB's image", at)
	}
	if rest := binary.LittleEndian.Uint64(read(int64(at)*block+500, 8)); rest != at+1 {
		t.Errorf("GRUB's image is at block %d, and takes its rest from %d", at, rest)
	}
}
