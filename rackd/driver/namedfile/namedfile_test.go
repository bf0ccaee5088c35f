package namedfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	write(outside, "secret")
	write(in("ca.pem"), "authority")
	write(in("most.pem"), strings.Repeat("x", MaxBytes))
	write(in("large.pem"), strings.Repeat("x", MaxBytes+1))
	for _, err := range []error{os.Mkdir(in("more"), 0o700), os.Symlink("../ca.pem", in("more/link.pem")), os.Symlink(outside, in("out.pem")),
		os.Symlink("/dev/zero", in("zero.pem")), syscall.Mkfifo(in("fifo"), 0o600), syscall.Mknod(in("device"), syscall.S_IFCHR|0o600, 1<<8|5)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f := Folder(dir)
	for _, name := range []string{"ca.pem", "./ca.pem", in("ca.pem"), "more/link.pem"} {
		if text, err := f.Read(name); err != nil || string(text) != "authority" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if text, err := f.Read("most.pem"); err != nil || len(text) != MaxBytes {
		t.Errorf("the largest: %d bytes, %v", len(text), err)
	}
	said := map[string]bool{}
	for _, name := range []string{"", ".", "missing.pem", "large.pem", "more", "out.pem", "zero.pem", "fifo", "device", outside, "/dev/zero",
		"../" + filepath.Base(filepath.Dir(outside)) + "/secret", in("../x"), "a\x00b"} {
		text, err := f.Read(name)
		if !errors.Is(err, ErrNone) || text != nil {
			t.Errorf("%q: %d bytes, %v; want none", name, len(text), err)
			continue
		}
		said[err.Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("errors tell what is there: %v", said)
	}
	if _, err := Folder("").Read("ca.pem"); !errors.Is(err, ErrNone) {
		t.Errorf("without a folder: %v", err)
	}
}
