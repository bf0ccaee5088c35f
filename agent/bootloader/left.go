package bootloader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// folder is how Mounted names the folders that it makes.
const folder = "mounted-"

// Release unmounts what an agent that crashed has left mounted: until then its disk counts as in use, and no command can go on. It is
// called before the first command.
func Release() error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	top, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return err
	}
	var left []string
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], filepath.Join(top, folder)) {
			left = append(left, f[4])
		}
	}
	slices.Reverse(left) // what was mounted last lies within
	var errs []error
	for _, dir := range left {
		if err := unix.Unmount(dir, 0); err != nil {
			errs = append(errs, fmt.Errorf("unmounting %s, which an agent before left: %w", dir, err))
			continue
		}
		if filepath.Dir(dir) == top {
			errs = append(errs, os.Remove(dir))
		}
	}
	return errors.Join(errs...)
}
