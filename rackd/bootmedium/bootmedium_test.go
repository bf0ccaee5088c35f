package bootmedium

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

func fileOf(b []byte) File { return File{bytes.NewReader(b), int64(len(b))} }

// made is a loader as found on a host, of bytes that are no programs.
func made(t *testing.T) (l *Loader, loader []byte) {
	t.Helper()
	loader = random(300_001)
	esp, err := fatVolume([]fatFile{{"BOOTX64.EFI", fileOf(loader)}, {"GRUBX64.EFI", fileOf(loader[:5])}})
	if err != nil {
		t.Fatal(err)
	}
	return &Loader{esp: esp, bios: random(33_333), mbr: random(block)}, loader
}

const network = `{"links":[],"networks":[],"services":[]}`

// written is an image with its parts, in a file.
func written(t *testing.T) (path string, kernel, ramdisk, loader []byte) {
	t.Helper()
	l, loader := made(t)
	kernel, ramdisk = random(100_000), random(70*sector) // a size between sectors, and one of sectors
	m, err := l.Image(Contents{Kernel: fileOf(kernel), Ramdisk: fileOf(ramdisk), Params: []string{"console=ttyS0", `a="b"`}, NetworkData: []byte(network)})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(io.NewSectionReader(m, 0, m.Size()))
	if err != nil || int64(len(whole)) != m.Size() || len(whole)%sector != 0 {
		t.Fatalf("read %d of %d bytes: %v", len(whole), m.Size(), err)
	}
	path = filepath.Join(t.TempDir(), "boot.iso")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, kernel, ramdisk, loader
}

// tool runs a foreign program. Machines without it skip the test, unless the virtual rack's tests are asked for.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("IRONYARD_E2E") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// Whatever part of an image is asked for, it is that part of the whole.
func TestPartsOfAnImage(t *testing.T) {
	l, _ := made(t)
	kernel, ramdisk := random(5000), random(9000)
	m, err := l.Image(Contents{Kernel: fileOf(kernel), Ramdisk: fileOf(ramdisk)})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(io.NewSectionReader(m, 0, m.Size()))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(whole, kernel) || !bytes.Contains(whole, ramdisk) {
		t.Error("kernel or ramdisk is not in one piece")
	}
	for range 2000 {
		at, n := rand.IntN(len(whole)), rand.IntN(5000)
		got := make([]byte, n)
		read, err := m.ReadAt(got, int64(at))
		if want := whole[at:min(at+n, len(whole))]; !bytes.Equal(got[:read], want) || (err == io.EOF) != (at+n > len(whole)) {
			t.Fatalf("%d bytes at %d: %d read, %v", n, at, read, err)
		}
	}
	if err := iotest.TestReader(io.NewSectionReader(m, 0, m.Size()), whole); err != nil {
		t.Error(err)
	}
	if _, err := m.ReadAt(make([]byte, 1), m.Size()); err != io.EOF {
		t.Errorf("behind the end: %v", err)
	}
}

// A file that became shorter is an error, and no zeros.
func TestShortFile(t *testing.T) {
	l, _ := made(t)
	m, err := l.Image(Contents{Kernel: File{bytes.NewReader(random(10)), 5000}, Ramdisk: fileOf(random(1))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(io.NewSectionReader(m, 0, m.Size())); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read with %v", err)
	}
}

// What differs from boot to boot moves nothing.
func TestImagesOfOneSize(t *testing.T) {
	l, _ := made(t)
	var sizes []int64
	for _, params := range [][]string{nil, {strings.Repeat("x", 2000)}} {
		m, err := l.Image(Contents{Kernel: fileOf(random(10)), Ramdisk: fileOf(random(10)), Params: params})
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, m.Size())
	}
	if sizes[0] != sizes[1] {
		t.Errorf("sizes %v", sizes)
	}
}

// What firmware and GRUB read ahead of a file is on the image, too: GRUB misreads what is in the last 32 KiB of a CD.
func TestNothingIsAtTheEnd(t *testing.T) {
	l, _ := made(t)
	for _, size := range []int{1, 2047, 2048, 3 * 2048, 40_001} {
		ramdisk := random(size)
		m, err := l.Image(Contents{Kernel: fileOf(random(10)), Ramdisk: fileOf(ramdisk)})
		if err != nil {
			t.Fatal(err)
		}
		end := make([]byte, 64<<10)
		if _, err := m.ReadAt(end, m.Size()-int64(len(end))); err != nil || !bytes.Equal(end, make([]byte, len(end))) {
			t.Errorf("with a ramdisk of %d bytes the end of the image holds something (%v)", size, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	l, _ := made(t)
	good := Contents{Kernel: fileOf(random(1)), Ramdisk: fileOf(random(1))}
	for name, change := range map[string]func(*Contents){
		"a quote":        func(c *Contents) { c.Params = []string{"x='"} },
		"a backslash":    func(c *Contents) { c.Params = []string{`x=\`} },
		"a line":         func(c *Contents) { c.Params = []string{"x\nboot"} },
		"a long line":    func(c *Contents) { c.Params = []string{strings.Repeat("x", menuSize)} },
		"no kernel":      func(c *Contents) { c.Kernel = File{} },
		"a large kernel": func(c *Contents) { c.Kernel.Size = maxFile + 1 },
		"large network":  func(c *Contents) { c.NetworkData = random(MaxNetworkData + 1) },
	} {
		c := good
		change(&c)
		if _, err := l.Image(c); !errors.Is(err, ErrContents) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// xorriso finds both boot entries, the label, and the files under their names, byte for byte.
func TestXorrisoReadsIt(t *testing.T) {
	path, kernel, ramdisk, _ := written(t)
	report := tool(t, "xorriso", "-indev", path, "-report_el_torito", "plain", "-report_system_area", "plain", "-pvd_info")
	for _, want := range []string{`El Torito boot img :   1  BIOS  y   none`, `El Torito boot img :   2  UEFI  y   none`, "Volume Id    : config-2", `MBR partition      :   1   0x80  0xef`,
		`System area summary: MBR grub2-mbr`} {
		if !regexp.MustCompile(want).MatchString(report) {
			t.Errorf("xorriso says nothing of %q:\n%s", want, report)
		}
	}
	out := t.TempDir()
	tool(t, "xorriso", "-osirrox", "on", "-indev", path, "-extract", "/", out)
	for name, want := range map[string][]byte{kernelPath: kernel, ramdiskPath: ramdisk, networkDataPath: []byte(network)} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(want), err)
		}
	}
	menu, err := os.ReadFile(filepath.Join(out, menuPath))
	if err != nil || !bytes.Contains(menu, []byte(`linux /boot/kernel 'console=ttyS0' 'a=b'`)) {
		t.Errorf("menu %q, %v", menu, err)
	}
}

// The checker of FAT volumes finds nothing, and mtools the boot loader.
func TestFATIsWhole(t *testing.T) {
	for _, size := range []int64{1, 300_001, 70 << 20} { // 70 MiB need larger clusters
		loader := random(int(size))
		parts, err := fatVolume([]fatFile{{"BOOTX64.EFI", fileOf(loader)}, {"GRUBX64.EFI", fileOf(loader[:1])}})
		if err != nil {
			t.Fatal(err)
		}
		var whole []byte
		for _, p := range parts {
			b := make([]byte, p.size)
			if _, err := p.from.ReadAt(b, p.at); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			whole = append(whole, b...)
		}
		dir := t.TempDir()
		path, out := filepath.Join(dir, "esp"), filepath.Join(dir, "out")
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if said := tool(t, "fsck.fat", "-n", "-v", path); !strings.Contains(said, "16 bit") {
			t.Errorf("%d bytes: %s", size, said)
		}
		tool(t, "mcopy", "-i", path, "::EFI/BOOT/BOOTX64.EFI", out)
		if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, loader) {
			t.Errorf("%d bytes: %d read, %v", size, len(got), err)
		}
	}
}

// cpio unpacks the archive.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	packed := filepath.Join(dir, "own.cpio")
	if err := os.WriteFile(packed, archive([]byte(network)), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "cpio", "--quiet", "-i", "-d", "-D", dir, "-F", packed)
	if got, err := os.ReadFile(filepath.Join(dir, NetworkDataFile)); err != nil || string(got) != network {
		t.Errorf("%q, %v", got, err)
	}
	if got := archive(nil); len(got) != 512 {
		t.Errorf("an archive of nothing has %d bytes", len(got))
	}
}

// The host's GRUB is found; a host without it says what to install, for each firmware.
func TestFindLoader(t *testing.T) {
	none := findLoader(t.Context(), t.TempDir())
	defer none.Close()
	for mode, pack := range map[string]string{UEFI: "grub-efi-amd64-bin", BIOS: "grub-pc-bin"} {
		if err := none.Problem(mode); err == nil || !strings.Contains(err.Error(), pack) {
			t.Errorf("%s: %v", mode, err)
		}
		if (*Loader)(nil).Problem(mode) == nil {
			t.Errorf("%s: a rackd that boots no machines makes media", mode)
		}
	}
	if os.Getenv("IRONYARD_E2E") == "" {
		return
	}
	here := FindLoader(context.Background())
	defer here.Close()
	for _, mode := range []string{UEFI, BIOS} {
		if err := here.Problem(mode); err != nil {
			t.Error(err)
		}
	}
	if len(here.bios) < leastBIOS || !slices.ContainsFunc(here.esp, func(p part) bool { return p.size > 1<<20 }) {
		t.Errorf("%d bytes of GRUB for BIOS", len(here.bios))
	}
}
