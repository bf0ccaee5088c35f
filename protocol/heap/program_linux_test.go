package heap

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The process has fewer of its program's pages afterwards, and goes on.
func TestReleaseProgram(t *testing.T) {
	before := residentFile(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after >= before {
		t.Errorf("%d KiB of files are mapped, %d before", after, before)
	}
}

// residentFile is how many KiB of files the process has mapped.
func residentFile(t *testing.T) (kib int) {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if n, _ := fmt.Sscanf(in.Text(), "RssFile: %d kB", &kib); n == 1 {
			return kib
		}
	}
	t.Fatal("the kernel does not say how much of files is mapped")
	return 0
}

// What was changed before it was protected is another's than the file's, and stays.
func TestChangedStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Repeat("a", 2*os.Getpagesize())), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	memory, err := unix.Mmap(int(f.Fd()), 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	memory[0] = 'b'
	if err := unix.Mprotect(memory, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if memory[0] != 'b' {
		t.Errorf("what had been changed is %q again, as in the file", memory[0])
	}
}

func TestUnchanged(t *testing.T) {
	const smaps = `00400000-00401000 r-xp 00000000 fe:00 12 /usr/bin/a program
Rss:                   4 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
VmFlags: rd ex mr mw me
00401000-00403000 r--p 00001000 fe:00 12 /usr/bin/a program
Anonymous:             4 kB
00403000-00404000 rw-p 00003000 fe:00 12 /usr/bin/a program
Anonymous:             0 kB
00404000-00405000 r--s 00000000 fe:00 13 /srv/shared
Anonymous:             0 kB
c000000000-c000400000 r--p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000002000 r--p 00000000 fe:00 14 /usr/lib/libc.so.6
Anonymous:             0 kB
7fff00000000-7fff00002000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
`
	got, err := unchanged(strings.NewReader(smaps))
	if want := "[{4194304 4198400} {139637976727552 139637976735744}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
	if got, err := unchanged(strings.NewReader("zz r-xp 0 0:0 1 /a")); err == nil {
		t.Errorf("nonsense was read as %v", got)
	}
}
