package deploy

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/partition"
)

// waitFor waits until the kernel shows a partition where the table has it. The kernel keeps its old view of a disk while something holds
// one of the old partitions open. A device file of the same name then leads elsewhere on the disk.
func waitFor(device string, p partition.Partition) (err error) {
	for range 50 {
		if err = shown(device, p); err == nil {
			return nil
		}
		<-time.After(100 * time.Millisecond)
	}
	return fmt.Errorf("the kernel does not show partition %s as the table has it: %w. Something holds the disk's old partitions; nothing was written by that name. Start the deploy again", device, err)
}

// sysfsUnit is in what sysfs counts the places of partitions, whatever the disk's sectors are.
const sysfsUnit = 512

// shown compares a partition with what the kernel's device file stands for.
func shown(device string, p partition.Partition) error {
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return fmt.Errorf("looking for %s: %w", device, err)
	}
	number := func(name string) (int64, error) {
		raw, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/%s", unix.Major(st.Rdev), unix.Minor(st.Rdev), name))
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		return n * sysfsUnit, err
	}
	size, err := number("size")
	if err != nil {
		return err
	}
	start, err := number("start")
	if errors.Is(err, os.ErrNotExist) {
		start, err = p.Start, nil // a device that stands in for a partition begins nowhere
	}
	if err != nil {
		return err
	}
	if start != p.Start || size != p.Size {
		return fmt.Errorf("it has %d bytes from byte %d there, and the table has %d from %d", size, start, p.Size, p.Start)
	}
	return nil
}
