package bootfiles

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An operator builds the ramdisk again while a machine has loaded its kernel and not its ramdisk. The machine does not get the modules
// of another kernel: it asks for a script again.
func TestOneBootIsOfOneBuild(t *testing.T) {
	dir := t.TempDir()
	paths := Paths{Kernel: write(t, filepath.Join(dir, "k"), "kernel 1"), Ramdisk: write(t, filepath.Join(dir, "r"), "ramdisk 1")}
	write(t, filepath.Join(dir, "undionly.kpxe"), "u")
	f, err := New(dir, paths)
	if err != nil {
		t.Fatal(err)
	}
	kernel, ramdisk := f.Now(Kernel), f.Now(Ramdisk)
	read := func(name string) string {
		file, err := f.Open(name)
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
			return ""
		}
		defer file.Close()
		got, _ := io.ReadAll(file)
		return string(got)
	}
	if read(kernel) != "kernel 1" || read(ramdisk) != "ramdisk 1" || Plain(kernel) != Kernel || Plain(ramdisk) != Ramdisk || Plain("undionly.kpxe") != "undionly.kpxe" {
		t.Errorf("%s holds %q, %s %q", kernel, read(kernel), ramdisk, read(ramdisk))
	}
	for _, p := range []string{paths.Kernel, paths.Ramdisk} { // as the builder does
		write(t, p+".new", "a file of build 2")
		if err := os.Rename(p+".new", p); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(ramdisk); got != "" {
		t.Errorf("a machine that has loaded the kernel of before gets %q", got)
	}
	if read(f.Now(Ramdisk)) != "a file of build 2" || read(Ramdisk) != "a file of build 2" {
		t.Error("the next script's machine does not get the new ramdisk")
	}
	// A build that leaves the size, and one that writes into the file.
	now := f.Now(Ramdisk)
	write(t, paths.Ramdisk, "a file of build 3")
	if err := os.Chtimes(paths.Ramdisk, time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := read(now); got != "" {
		t.Errorf("after a write into the file: %q", got)
	}
	if got := f.Now("none"); got != "none" {
		t.Errorf("a file that is not there is %q", got)
	}
}
