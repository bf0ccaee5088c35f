package inventory

import (
	"strings"
)

// slowClasses are the PCI classes of controllers that look for their disks on their own, some for a
// minute and more: SCSI, RAID, SAS, and Fibre Channel. An AHCI controller is done in seconds, and
// most machines have one without disks.
var slowClasses = []string{"0x0100", "0x0104", "0x0107", "0x0c04"}

// Pending names the PCI addresses of storage controllers that show no disk, and may still be looking
// for their first.
func (m Machine) Pending() []string {
	if len(m.DiskFiles) > 0 {
		return nil
	}
	var disks []string
	for _, name := range m.names("/sys/block") {
		disks = append(disks, m.target("/sys/block", name))
	}
	var out []string
	for _, address := range m.names("/sys/bus/pci/devices") {
		class := m.text("/sys/bus/pci/devices", address, "class")
		if !hasPrefix(class, slowClasses) {
			continue
		}
		if place := m.target("/sys/bus/pci/devices", address); !below(disks, place) {
			out = append(out, address)
		}
	}
	return out
}

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// below reports whether one of the places in sysfs is below another.
func below(places []string, of string) bool {
	for _, p := range places {
		if of != "" && strings.HasPrefix(p, of+"/") {
			return true
		}
	}
	return false
}
