package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// cpu is what this process and the PostgreSQL that it has started have used of the
// processors so far. On a machine that others use too it says more than a rate does.
func cpu() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	sum := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	if cluster == nil {
		return sum
	}
	server := strconv.Itoa(cluster.PID())
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// After the name in parentheses: state, parent, …; user and system time, in
		// hundredths of a second, are the twelfth and the thirteenth.
		f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(f) < 13 || string(f[1]) != server {
			continue
		}
		for _, ticks := range f[11:13] {
			n, _ := strconv.ParseInt(string(ticks), 10, 64)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
