package bootfiles

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOnlyTheListIsServed(t *testing.T) {
	dir := t.TempDir()
	kernel, ramdisk := write(t, filepath.Join(dir, "vmlinuz-6"), "k"), write(t, filepath.Join(dir, "agent.cpio"), "r")
	write(t, filepath.Join(dir, "undionly.kpxe"), "u")
	write(t, filepath.Join(dir, "secret"), "s")
	if err := os.Mkdir(filepath.Join(dir, "snponly.efi"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := New(dir, Paths{Kernel: kernel, Ramdisk: ramdisk, RescueRamdisk: write(t, filepath.Join(dir, "rescue.cpio"), "h"),
		UKI: write(t, filepath.Join(dir, "one.efi"), "p")})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{Kernel: "k", Ramdisk: "r", RescueRamdisk: "h", "undionly.kpxe": "u", UKI: "p"} {
		file, err := f.Open(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(file)
		if file.Close(); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", ".", "secret", "../" + filepath.Base(dir) + "/secret", "/etc/passwd", "vmlinuz-6", "snponly.efi", "ipxe.efi", "kernel/", "one.efi", RescueUKI} {
		if file, err := f.Open(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q was opened: %v, %v", name, file, err)
		}
	}
	write(t, kernel, "newer") // a ramdisk that is built again is served without a restart
	file, err := f.Open(Kernel)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got, _ := io.ReadAll(file); string(got) != "newer" {
		t.Errorf("the kernel is %q after it was replaced", got)
	}
}

func TestWhatIsMissingIsAnErrorOfTheStart(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "file"), "x")
	if _, err := New(dir, Paths{Kernel: filepath.Join(dir, "none"), Ramdisk: file}); err == nil {
		t.Error("no kernel, no error")
	}
	if _, err := New(dir, Paths{Kernel: file, Ramdisk: dir}); err == nil {
		t.Error("the ramdisk is a folder, no error")
	}
	if _, err := New(dir, Paths{Kernel: file, Ramdisk: file, RescueRamdisk: dir}); err == nil {
		t.Error("a folder is taken for the ramdisk of rescues")
	}
	if _, err := New(dir, Paths{Kernel: file, Ramdisk: file, UKI: filepath.Join(dir, "none")}); err == nil {
		t.Error("no program, no error")
	}
	if _, err := New(dir, Paths{Kernel: file, Ramdisk: file}); err == nil {
		t.Error("no boot program, no error")
	}
}

// Names of further ramdisks are served, and plain they are those of the rack's own.
func TestNumbered(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "undionly.kpxe"), "u")
	file := write(t, filepath.Join(dir, "f"), "the other kernel")
	for name, want := range map[string]string{Kernel: "kernel-r2", RescueRamdisk: "rescue-ramdisk-r2", UKI: "ramdisk-r2.efi", RescueUKIARM64: "rescue-ramdisk-arm64-r2.efi"} {
		got := Numbered(name, 2)
		if got != want || Plain(got) != name || Numbered(name, 0) != name || Plain(name) != name || IsProgram(Plain(got)) != IsProgram(name) {
			t.Errorf("%s: %s, plain %s", name, got, Plain(got))
		}
	}
	for _, name := range []string{"snponly.efi", "ipxe-arm64.efi", "a-rx", "-r1"} {
		if Plain(name) != name {
			t.Errorf("%s is plain %s", name, Plain(name))
		}
	}
	f, err := New(dir, Paths{Kernel: file, Ramdisk: file, More: map[string]string{Numbered(Kernel, 1): file}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kernel-r1", f.Now("kernel-r1")} {
		opened, err := f.Open(name)
		if err != nil || Plain(name) != Kernel {
			t.Errorf("%s: %v, plain %s", name, err, Plain(name))
			continue
		}
		opened.Close()
	}
	if _, err := New(dir, Paths{Kernel: file, Ramdisk: file, More: map[string]string{Numbered(Kernel, 1): filepath.Join(dir, "none")}}); err == nil {
		t.Error("a further ramdisk without its file")
	}
}
