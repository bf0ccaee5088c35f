package esp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// csv is a CSV of shim's.
func csv(lines string) string {
	out := []byte{0xFF, 0xFE}
	for _, u := range utf16.Encode([]rune(lines)) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return string(out)
}

// volume makes a FAT with dosfstools and mtools.
func volume(t *testing.T, kilobytes int, files map[string]string, mkfs ...string) *os.File {
	t.Helper()
	for _, tool := range []string{"mkfs.vfat", "mmd", "mcopy"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (make test installs it)", tool)
		}
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "volume")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
	}
	run("mkfs.vfat", append(mkfs, "-C", image, strconv.Itoa(kilobytes))...)
	made := map[string]bool{"/": true, ".": true}
	for name, body := range files {
		for _, d := range []string{path.Dir(path.Dir(path.Dir(name))), path.Dir(path.Dir(name)), path.Dir(name)} {
			if !made[d] {
				run("mmd", "-i", image, "::"+d)
				made[d] = true
			}
		}
		from := filepath.Join(dir, "file")
		if err := os.WriteFile(from, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		run("mcopy", "-i", image, from, "::"+name)
	}
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// behind is a disk with a volume at an offset.
type behind struct{ io.ReaderAt }

const before = 1 << 20

func (b behind) ReadAt(p []byte, off int64) (int, error) {
	if off < before {
		return 0, errors.New("read in front of the partition")
	}
	return b.ReaderAt.ReadAt(p, off-before)
}

func TestLoader(t *testing.T) {
	x, ubuntu := "BOOT"+strings.ToUpper(Suffix()), csv("shim"+Suffix()+".efi,ubuntu,,This is the boot entry for ubuntu\n")
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"removable media":    {map[string]string{"/EFI/BOOT/" + x + ".EFI": "loader"}, `\EFI\BOOT\` + x + `.EFI`},
		"the system's own":   {map[string]string{"/EFI/BOOT/" + x + ".EFI": "shim", "/EFI/ubuntu/" + x + ".CSV": ubuntu, "/EFI/ubuntu/shim" + Suffix() + ".efi": "shim"}, `\EFI\ubuntu\shim` + Suffix() + `.efi`},
		"a CSV without file": {map[string]string{"/EFI/BOOT/" + x + ".EFI": "shim", "/EFI/ubuntu/" + x + ".CSV": ubuntu}, `\EFI\BOOT\` + x + `.EFI`},
		"a CSV that climbs":  {map[string]string{"/EFI/BOOT/" + x + ".EFI": "shim", "/EFI/u/" + x + ".CSV": csv(`..\BOOT\x.efi,a` + "\n")}, `\EFI\BOOT\` + x + `.EFI`},
		"a known loader":     {map[string]string{"/EFI/debian/grub" + Suffix() + ".efi": "grub"}, `\EFI\debian\grub` + Suffix() + `.efi`},
		"Windows":            {map[string]string{"/EFI/Microsoft/Boot/bootmgfw.efi": "w"}, `\EFI\Microsoft\Boot\bootmgfw.efi`},
		"nothing":            {map[string]string{"/grub/grub.cfg": "set"}, ""},
		"another machine's":  {map[string]string{"/EFI/BOOT/BOOTRISCV64.EFI": "r"}, ""},
		"an empty file":      {map[string]string{"/EFI/BOOT/" + x + ".EFI": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Loader(behind{volume(t, 34<<10, c.files, "-F", "32", "-s", "1")}, before, 34<<20)
			var none *NoLoaderError
			if c.want == "" && (!errors.As(err, &none) || !strings.Contains(err.Error(), `\\EFI\\BOOT\\BOOT`)) {
				t.Errorf("%q, %v; want an error that says what was looked for", got, err)
			} else if c.want != "" && (err != nil || !strings.EqualFold(got, c.want)) {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// Images have any of the three file systems, and sectors of 4 KiB.
func TestEachFAT(t *testing.T) {
	name := "BOOT" + strings.ToUpper(Suffix()) + ".EFI"
	for _, c := range []struct {
		kilobytes int
		mkfs      []string
	}{
		{2 << 10, []string{"-F", "12"}}, {64 << 10, []string{"-F", "16"}}, {64 << 10, []string{"-F", "32", "-s", "1"}}, {300 << 10, []string{"-F", "32", "-S", "4096", "-s", "1"}},
	} {
		disk := behind{volume(t, c.kilobytes, map[string]string{"/EFI/BOOT/" + name: "loader"}, c.mkfs...)}
		if got, err := Loader(disk, before, int64(c.kilobytes)<<10); err != nil || got != `\EFI\BOOT\`+name {
			t.Errorf("mkfs.vfat %q: %q, %v", c.mkfs, got, err)
		}
	}
}

func TestNoFAT(t *testing.T) {
	full := make([]byte, 1<<20)
	full[510], full[511], full[12], full[13] = 0x55, 0xAA, 2, 1
	binary.LittleEndian.PutUint32(full[32:], 1<<31) // sectors
	for name, raw := range map[string][]byte{"zeros": make([]byte, 1<<20), "larger than its partition": full} {
		var none *NoLoaderError
		if got, err := Loader(bytes.NewReader(raw), 0, int64(len(raw))); !errors.As(err, &none) || none.Why == "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// What an image holds there is a tenant's. It may be anything.
func FuzzLoader(f *testing.F) {
	f.Add([]byte("\xeb\x3c\x90mkfs.fat\x00\x02\x04\x04\x00"), uint16(0))
	f.Fuzz(func(t *testing.T, head []byte, at uint16) {
		raw := make([]byte, 256<<10)
		raw[510], raw[511], raw[12], raw[13], raw[14], raw[16], raw[22] = 0x55, 0xAA, 2, 1, 1, 2, 4
		binary.LittleEndian.PutUint16(raw[19:], 512)
		binary.LittleEndian.PutUint16(raw[17:], 16)
		copy(raw[at:], head)
		_, _ = Loader(bytes.NewReader(raw), 0, int64(len(raw)))
	})
}
