package inventory

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// The parts of a device's place in sysfs by which udev's path_id names it.
var (
	pciSlot      = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	ataPort      = regexp.MustCompile(`^ata\d+$`)
	usbInterface = regexp.MustCompile(`^\d+-([\d.]+:\d+\.\d+)$`)
	scsiAddress  = regexp.MustCompile(`^(\d+):(\d+):(\d+):(\d+)$`)
	scsiHost     = regexp.MustCompile(`^host(\d+)$`)
)

// byPath is the name that udev gives a disk by its place: /dev/disk/by-path/…. A ramdisk runs no
// udev, and operators know their disks by that name from elsewhere. It is empty for disks that udev
// gives none, such as NVMe drives with several paths. The forms are those of systemd's path_id.
func (m Machine) byPath(name string) string {
	place := m.target("/sys/block", name)
	at, ok := strings.CutPrefix(place, "/sys/devices/")
	if !ok || strings.HasPrefix(at, "virtual/") {
		return ""
	}
	var bus string // of the machine: what all names begin with
	var own []string
	parts := strings.Split(at, "/")
	for i, p := range parts {
		switch {
		case i > 0 && parts[i-1] == "platform":
			bus = "platform-" + p + "-"
		case pciSlot.MatchString(p):
			// Of a chain of bridges the device at the end counts.
			if cut := strings.LastIndex(bus, "pci-"); cut >= 0 {
				bus = bus[:cut]
			}
			bus += "pci-" + p + "-"
		case usbInterface.MatchString(p):
			own = append(own, "usb-0:"+usbInterface.FindStringSubmatch(p)[1])
		case scsiAddress.MatchString(p):
			s := m.scsiPath(parts[:i], scsiAddress.FindStringSubmatch(p))
			if s == "" {
				return ""
			}
			own = append(own, s)
		case p == name && strings.HasPrefix(name, "nvme"):
			nsid := m.text(place, "nsid")
			if nsid == "" {
				return ""
			}
			own = append(own, "nvme-"+nsid)
		}
	}
	if bus == "" {
		return ""
	}
	return "/dev/disk/by-path/" + strings.TrimSuffix(bus+strings.Join(own, "-"), "-")
}

// scsiPath names a SCSI device below the devices in above: by the port of its ATA controller,
// by its place in a SAS domain, else by its address. Address holds host, bus, target and unit.
func (m Machine) scsiPath(above, address []string) string {
	bus, target, unit := address[2], address[3], address[4]
	for i, p := range above {
		switch {
		case ataPort.MatchString(p):
			port := m.text("/sys/class/ata_port", p, "port_no")
			switch {
			case port == "":
				return ""
			case bus != "0": // behind a port multiplier
				return fmt.Sprintf("ata-%s.%s.0", port, bus)
			}
			return fmt.Sprintf("ata-%s.%s", port, target)
		case strings.HasPrefix(p, "end_device-"):
			return m.sasPath(above[:i], p, unit)
		case strings.HasPrefix(p, "rport-"):
			wwpn := m.text("/sys/class/fc_transport", "target"+strings.Join(address[1:4], ":"), "port_name")
			if wwpn == "" {
				return ""
			}
			return "fc-" + wwpn + "-" + lun(unit)
		case strings.HasPrefix(p, "session"):
			return "" // iSCSI: the name holds the portal, and no ramdisk has such a disk by itself
		}
	}
	host, err := strconv.Atoi(address[1])
	if err != nil {
		return ""
	}
	// Hosts are counted from the controller's first, so that the name survives a reboot.
	first := host
	for i, p := range above {
		if scsiHost.MatchString(p) {
			for _, other := range m.names(path.Join("/sys/devices", path.Join(above[:i]...))) {
				if f := scsiHost.FindStringSubmatch(other); f != nil {
					if n, err := strconv.Atoi(f[1]); err == nil {
						first = min(first, n)
					}
				}
			}
		}
	}
	return fmt.Sprintf("scsi-%d:%s:%s:%s", host-first, bus, target, unit)
}

// sasPath names an end device by the phy it is at, of an expander or of the controller, and one
// with several phys by its address.
func (m Machine) sasPath(above []string, device, unit string) string {
	own := func(file string) string { return m.text("/sys/class/sas_device", device, file) }
	var port, expander string
	for _, p := range above {
		switch {
		case strings.HasPrefix(p, "port-"):
			port = p
		case strings.HasPrefix(p, "expander-"):
			expander = p
		}
	}
	if m.text("/sys/class/sas_port", port, "num_phys") != "1" {
		if own("sas_address") == "" {
			return ""
		}
		return "sas-" + own("sas_address") + "-" + lun(unit)
	}
	phy := own("phy_identifier")
	switch {
	case phy == "":
		return ""
	case expander == "":
		return "sas-phy" + phy + "-" + lun(unit)
	}
	return "sas-exp" + m.text("/sys/class/sas_device", expander, "sas_address") + "-phy" + phy + "-" + lun(unit)
}

// lun writes a unit as udev does.
func lun(unit string) string {
	n, err := strconv.ParseUint(unit, 10, 64)
	if err != nil || n < 256 {
		return "lun-" + unit
	}
	return fmt.Sprintf("lun-0x%04x%04x00000000", n&0xffff, n>>16&0xffff)
}
