package partitionimage

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The loader that a system holds finds all libraries of the system's programs in the system. glibc's own listing judges.
func TestLibrariesOfASystem(t *testing.T) {
	s := system{"usr/share/script": {perm: 0o755, data: []byte("#!/bin/sh\n")}, "bin": {link: true, data: []byte("usr/bin")}}
	programs := []string{"usr/bin/dpkg", "usr/bin/findmnt", "usr/bin/sed"}
	for _, name := range programs {
		if err := s.add("of each Debian", name); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.addLibraries(); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for name, c := range s {
		if err := c.write(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(root, name) }
	for _, name := range programs {
		out, err := exec.CommandContext(t.Context(), in("usr/lib64/ld-linux-x86-64.so.2"), "--inhibit-cache", "--library-path", in(libraryFolder), "--list", in(name)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		found := 0
		for line := range strings.Lines(string(out)) {
			_, at, says := strings.Cut(line, "=>")
			if !says {
				continue
			}
			if found++; !strings.HasPrefix(strings.TrimSpace(at), root) && !strings.Contains(line, "ld-linux") {
				t.Errorf("%s has from elsewhere: %s", name, line)
			}
		}
		if found == 0 {
			t.Errorf("%s names no library:\n%s", name, out)
		}
	}
}

// What is not there is said with the package to install.
func TestMissingPackage(t *testing.T) {
	err := system{}.add("no-package", "usr/bin/no-program")
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/usr/bin/no-program of Debian's package no-package") {
		t.Errorf("%v", err)
	}
}
