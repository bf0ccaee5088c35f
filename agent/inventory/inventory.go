// Package inventory describes the machine: processors, memory, disks, network
// interfaces and firmware, read from sysfs and procfs.
//
// It may import protocol/agentapi only and starts no program. Invariants: what
// cannot be read is left empty, never guessed; the order of lists is stable; disks
// that an image must never go to (RAM disks, loop devices, optical drives, empty
// or read-only ones, mounted ones) are not listed.
package inventory

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Machine is where to look. The zero value looks at this machine.
type Machine struct {
	// Root is put in front of /sys, /proc and /dev, for tests.
	Root string
	// BootMAC is the interface that the firmware booted from, if known.
	BootMAC string
	// DiskFiles, if any, stand in for the disks of the machine: paths of devices or
	// of regular files.
	DiskFiles []string
	// OwnModules: the agent has loaded the kernel's modules itself, all of them, before the first look at the machine.
	OwnModules bool
}

// Read takes the whole inventory.
func (m Machine) Read() agentapi.Inventory {
	host, _ := os.Hostname() // empty if the kernel has none
	return agentapi.Inventory{
		Interfaces: m.NICs(), CPU: m.CPU(), Disks: m.Disks(), Memory: m.Memory(),
		SystemVendor: m.System(), Boot: agentapi.Boot{CurrentBootMode: m.BootMode(), PXEInterface: m.BootMAC}, Hostname: host,
	}
}

// BootMode is uefi or bios.
func (m Machine) BootMode() string {
	if _, err := os.Stat(m.path("/sys/firmware/efi")); err == nil {
		return "uefi"
	}
	return "bios"
}

// System is what DMI says about the machine.
func (m Machine) System() agentapi.SystemVendor {
	dmi := func(name string) string { return m.text("/sys/class/dmi/id", name) }
	return agentapi.SystemVendor{
		ProductName: dmi("product_name"), SerialNumber: dmi("product_serial"), Manufacturer: dmi("sys_vendor"),
		Firmware:   agentapi.Firmware{Vendor: dmi("bios_vendor"), Version: dmi("bios_version"), BuildDate: dmi("bios_date")},
		SystemUUID: m.SystemUUID(),
	}
}

// SystemUUID is what DMI calls the machine, empty where it does not say.
func (m Machine) SystemUUID() string { return m.text("/sys/class/dmi/id", "product_uuid") }

func (m Machine) path(elem ...string) string {
	return filepath.Join(append([]string{"/", m.Root}, elem...)...)
}

// text reads a small file; empty if there is none.
func (m Machine) text(elem ...string) string {
	b, err := os.ReadFile(m.path(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (m Machine) number(elem ...string) int64 {
	n, err := strconv.ParseInt(m.text(elem...), 0, 64)
	if err != nil {
		return 0
	}
	return n
}

// names lists a folder, sorted.
func (m Machine) names(elem ...string) []string {
	entries, err := os.ReadDir(m.path(elem...))
	if err != nil {
		return nil
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

// target resolves a symbolic link to a path without Root; empty if it is none.
func (m Machine) target(elem ...string) string {
	p, err := filepath.EvalSymlinks(m.path(elem...))
	if err != nil {
		return ""
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(p, filepath.Clean("/"+m.Root)), "/")
}
