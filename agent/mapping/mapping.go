// Package mapping removes what the kernel's device mapper has on a disk: such devices are objects of the kernel that no name space has, so
// they outlive the container that made them.
//
// It may import nothing of the project. Invariants: a mapping is removed only if all that it stands on is the disk, a partition of it, or
// a mapping that is removed, too. Multipath stays: its disk is the mapping. What is open stays, for the kernel refuses.
// Source: Linux 6.1, include/uapi/linux/dm-ioctl.h and Documentation/ABI/testing/sysfs-block-dm.
package mapping

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel is that of this machine.
type Kernel struct {
	// Sys is where sysfs is; empty: /sys.
	Sys string
	// Remove removes a mapping by its name; nil: the kernel does.
	Remove func(name string) error
}

// Clear removes the mappings that stand on a disk and on nothing else, and returns their names.
func (k Kernel) Clear(disk string) (removed []string, err error) {
	if real, err := filepath.EvalSymlinks(disk); err == nil {
		disk = real
	}
	mine, found, err := k.on(filepath.Base(disk))
	if err != nil {
		return nil, fmt.Errorf("looking for mappings on disk %s: %w", disk, err)
	}
	remove := k.Remove
	if remove == nil {
		remove = ask
	}
	for _, dev := range slices.Backward(mine[len(mine)-found:]) { // those on top first
		name, err := k.text(dev, "dm/name")
		if err == nil {
			err = remove(name)
		}
		if err != nil {
			return removed, fmt.Errorf("removing mapping %s (%s), which keeps disk %s in use: %w", name, dev, disk, err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// on lists a disk, its partitions and, at the end, the mappings that stand on these alone: each behind what it stands on.
func (k Kernel) on(disk string) (mine []string, found int, err error) {
	mine = []string{disk}
	inside, err := k.names(disk, "")
	if err != nil {
		return nil, 0, err
	}
	for _, name := range inside {
		if _, err := os.Stat(k.path(disk, filepath.Join(name, "partition"))); err == nil {
			mine = append(mine, name)
		}
	}
	parts := len(mine)
	for again := true; again; {
		again = false
		for _, dev := range slices.Clone(mine) {
			holders, err := k.names(dev, "holders")
			if err != nil {
				return nil, 0, err
			}
			for _, holder := range holders {
				if !strings.HasPrefix(holder, "dm-") || slices.Contains(mine, holder) {
					continue
				}
				alone, err := k.alone(holder, mine)
				if err != nil {
					return nil, 0, err
				}
				if alone {
					mine, again = append(mine, holder), true
				}
			}
		}
	}
	return mine, len(mine) - parts, nil
}

// alone reports whether a mapping stands on nothing but what is listed, and is no disk of several paths.
func (k Kernel) alone(dev string, mine []string) (bool, error) {
	slaves, err := k.names(dev, "slaves")
	if err != nil {
		return false, err
	}
	id, err := k.text(dev, "dm/uuid")
	if err != nil {
		return false, err
	}
	other := slices.ContainsFunc(slaves, func(s string) bool { return !slices.Contains(mine, s) })
	return len(slaves) > 0 && !other && !strings.HasPrefix(id, "mpath-"), nil
}

func (k Kernel) path(dev, name string) string {
	sys := k.Sys
	if sys == "" {
		sys = "/sys"
	}
	return filepath.Join(sys, "class/block", dev, name)
}

// names lists a folder of a device. One that has gone, or that the kernel does not list, has none.
func (k Kernel) names(dev, folder string) (names []string, err error) {
	entries, err := os.ReadDir(k.path(dev, folder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (k Kernel) text(dev, name string) (string, error) {
	raw, err := os.ReadFile(k.path(dev, name))
	return strings.TrimSpace(string(raw)), err
}

// control is struct dm_ioctl.
type control struct {
	version   [3]uint32
	dataSize  uint32
	dataStart uint32
	targets   uint32
	opened    int32
	flags     uint32
	event     uint32
	_         uint32
	dev       uint64
	name      [128]byte
	uuid      [129]byte
	_         [7]byte
}

// devRemove is DM_DEV_REMOVE: _IOWR(0xfd, 4, struct dm_ioctl).
const devRemove = 0xc138fd04

// ask has the kernel remove a mapping.
func ask(name string) error {
	f, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	c := control{version: [3]uint32{4, 0, 0}}
	c.dataSize = uint32(unsafe.Sizeof(c))
	if name == "" || copy(c.name[:len(c.name)-1], name) < len(name) {
		return fmt.Errorf("%q is no name of a mapping", name)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), devRemove, uintptr(unsafe.Pointer(&c))); errno != 0 {
		return errno
	}
	return nil
}
