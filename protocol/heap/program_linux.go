package heap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram gives back the pages of the program, and of its libraries, that are
// mapped: a quarter of them is needed by a start alone. Nobody changes them, so the
// kernel keeps them for as long as it likes, and maps what is needed again from there.
func releaseProgram() error {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := unchanged(f)
	if err != nil {
		return fmt.Errorf("read what the process has mapped: %w", err)
	}
	for _, m := range all {
		if _, _, code := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); code != 0 {
			return fmt.Errorf("give back %x-%x of the program: %w", m.start, m.end, code)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// unchanged lists the private mappings of files which cannot be written to and of which
// nothing was changed before that: without its pages such a mapping says the same.
// smaps is as in proc(5).
func unchanged(smaps io.Reader) (all []mapping, err error) {
	var m mapping
	ofFile := false
	in := bufio.NewScanner(smaps)
	for in.Scan() {
		fields := strings.Fields(in.Text())
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"): // addresses permissions offset device inode path
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err != nil {
				return nil, fmt.Errorf("%q: %w", in.Text(), err)
			}
			ofFile = (fields[1] == "r--p" || fields[1] == "r-xp") && len(fields) > 5 && strings.HasPrefix(fields[5], "/")
		case ofFile && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			all = append(all, m)
		}
	}
	return all, in.Err()
}
