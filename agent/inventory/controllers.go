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

// scannedAtLoad are the classes of IDE and AHCI controllers. The kernel ends the load of a module when the
// scans that it began are over.
var scannedAtLoad = []string{"0x0101", "0x0106"}

// mayComeLate are the classes behind which a disk may be found at any time: storage, eMMC, FireWire, USB and Fibre Channel.
var mayComeLate = []string{"0x01", "0x0805", "0x0c00", "0x0c03", "0x0c04"}

// Complete reports whether all disks of the machine are there for certain: its controllers are virtio disks, which show their
// only disk when their driver finds them, and others that were scanned while the agent loaded their modules. Many
// virtual machines are like this, and hardly a real one, because of USB.
func (m Machine) Complete() bool {
	addresses := m.names("/sys/bus/pci/devices")
	if !m.OwnModules || len(m.DiskFiles) > 0 || len(addresses) == 0 || len(m.names("/sys/class/mmc_host")) > 0 {
		return false
	}
	var virtio []string
	for _, name := range m.names("/sys/block") {
		if strings.HasPrefix(name, "vd") {
			virtio = append(virtio, m.target("/sys/block", name))
		}
	}
	for _, address := range addresses {
		class := m.text("/sys/bus/pci/devices", address, "class")
		if !hasPrefix(class, mayComeLate) || hasPrefix(class, scannedAtLoad) {
			continue
		}
		if !below(virtio, m.target("/sys/bus/pci/devices", address)) {
			return false
		}
	}
	return true
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
