package inventory

import (
	"os"
	"regexp"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// skipped are block devices that are no disks of the machine: those of the kernel, and the boot
// and key areas of eMMC, which are devices beside the disk.
var skipped = regexp.MustCompile(`^(loop|ram|zram|sr|fd|nbd|dm-|md)\d*|^mmcblk\d+(boot\d+|rpmb)$`)

// hctl is the SCSI address in the path of a device.
var hctl = regexp.MustCompile(`/(\d+:\d+:\d+:\d+)/block/`)

// Disks lists the disks an image may go to, by name.
func (m Machine) Disks() []agentapi.Disk {
	disks, _ := m.Look()
	return disks
}

// Look lists the disks an image may go to, and the other disks with the reason why none may, by name.
func (m Machine) Look() (disks []agentapi.Disk, unfit []agentapi.UnfitDisk) {
	if len(m.DiskFiles) > 0 {
		return m.files(), nil
	}
	disks = []agentapi.Disk{}
	m.each(func(d agentapi.Disk, why string) {
		if why == "" {
			disks = append(disks, d)
		} else {
			unfit = append(unfit, agentapi.UnfitDisk{Disk: d, Why: why})
		}
	})
	return disks, unfit
}

// each calls do for each disk of the machine; why says why no image may go to it, empty if one may.
func (m Machine) each(do func(d agentapi.Disk, why string)) {
	mounted := m.mounted()
	for _, name := range m.names("/sys/block") {
		// A hidden device is one path to a disk with several. It has no device file, and the
		// disk itself is in the list too.
		if skipped.MatchString(name) || m.text("/sys/block", name, "hidden") == "1" {
			continue
		}
		d := m.disk(name)
		switch {
		case d.Size == 0 && d.Removable: // no medium is in the drive
		case d.Size == 0: // a drive that has failed shows itself like this
			do(d, "of size 0")
		case m.text("/sys/block", name, "ro") == "1":
			do(d, "read-only")
		case m.inUse(name, mounted):
			do(d, "in use")
		default:
			do(d, "")
		}
	}
}

func (m Machine) disk(name string) agentapi.Disk {
	at := func(elem ...string) string { return m.text(append([]string{"/sys/block", name}, elem...)...) }
	first := func(paths ...string) string {
		for _, p := range paths {
			if v := at(p); v != "" {
				return v
			}
		}
		return ""
	}
	d := agentapi.Disk{
		Name: "/dev/" + name, Model: at("device/model"), Vendor: at("device/vendor"),
		// The unit of this file is 512 bytes whatever the disk's sectors are.
		Size:       m.number("/sys/block", name, "size") * 512,
		Rotational: at("queue/rotational") == "1",
		Serial:     first("serial", "device/serial"), WWN: first("wwid", "device/wwid"),
		Removable: at("removable") == "1", ByPath: m.byPath(name),
		LogicalSectors:  int(m.number("/sys/block", name, "queue/logical_block_size")),
		PhysicalSectors: int(m.number("/sys/block", name, "queue/physical_block_size")),
	}
	if d.Serial == "" {
		d.Serial = m.unitSerial(name)
	}
	if whole := m.ataModel(name); strings.HasPrefix(whole, d.Model) {
		d.Model = whole
	}
	d.Serial = clean(d.Serial)
	for _, prefix := range []string{"naa.", "eui.", "nvme."} {
		if id, ok := strings.CutPrefix(d.WWN, prefix); ok && prefix == "naa." {
			d.WWN = "0x" + id
		}
	}
	if strings.HasPrefix(d.WWN, "t10.") {
		d.WWN = "" // text, no number: not what hints mean by a WWN
	}
	if strings.HasPrefix(d.WWN, "0x") && len(d.WWN) == 2+32 {
		// NAA type 6: eight bytes of name, eight of vendor's extension.
		d.WWNWithExtension, d.WWNVendorExtension, d.WWN = d.WWN, "0x"+d.WWN[18:], d.WWN[:18]
	} else {
		d.WWNWithExtension = d.WWN
	}
	path := m.target("/sys/block", name)
	if f := hctl.FindStringSubmatch(path); f != nil {
		d.HCTL = f[1]
	}
	d.Tran = transport(name, path)
	return d
}

func transport(name, path string) string {
	for _, t := range []struct{ part, tran string }{
		{"/ata", "sata"}, {"/usb", "usb"}, {"/end_device-", "sas"}, {"/rport-", "fc"}, {"/session", "iscsi"}, {"/virtio", "virtio"},
	} {
		if strings.Contains(path, t.part) {
			return t.tran
		}
	}
	if strings.HasPrefix(name, "nvme") {
		return "nvme"
	}
	return ""
}

// unitSerial reads page 0x80 of a SCSI device's vital product data: four bytes, the last two of
// which are the length of the serial number that follows (SPC-4, 7.8.18).
func (m Machine) unitSerial(name string) string {
	page, err := os.ReadFile(m.path("/sys/block", name, "device/vpd_pg80"))
	if err != nil || len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	n := int(page[2])<<8 | int(page[3])
	return string(page[4:min(4+n, len(page))])
}

// ataModel reads the model of an ATA drive, of 40 characters, in page 0x89 of its vital product data (SAT-4, 12.4.2): SCSI's has 16. Words
// of the answer to IDENTIFY DEVICE have their second character first.
func (m Machine) ataModel(name string) string {
	const identify, model, length = 60, 2 * 27, 40
	page, err := os.ReadFile(m.path("/sys/block", name, "device/vpd_pg89"))
	if err != nil || len(page) < identify+model+length || page[1] != 0x89 {
		return ""
	}
	var text []byte
	for at := identify + model; at < identify+model+length; at += 2 {
		text = append(text, page[at+1], page[at])
	}
	return clean(string(text))
}

// clean drops what devices put around text.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s))
}

// mounted is the set of devices that hold a mounted file system or swap.
func (m Machine) mounted() map[string]bool {
	out := map[string]bool{}
	for _, list := range []string{"/proc/self/mounts", "/proc/swaps"} {
		for line := range strings.Lines(m.text(list)) {
			device, _, _ := strings.Cut(line, " ")
			if dev, ok := strings.CutPrefix(strings.TrimSpace(device), "/dev/"); ok {
				out[dev] = true
			}
		}
	}
	return out
}

// inUse reports whether a disk or one of its partitions is mounted.
func (m Machine) inUse(name string, mounted map[string]bool) bool {
	if mounted[name] {
		return true
	}
	for _, part := range m.names("/sys/block", name) {
		if strings.HasPrefix(part, name) && mounted[part] {
			return true
		}
	}
	return false
}

func (m Machine) files() []agentapi.Disk {
	out := []agentapi.Disk{}
	for _, path := range m.DiskFiles {
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
			out = append(out, agentapi.Disk{Name: path, Model: "file", Size: st.Size(), LogicalSectors: 512, PhysicalSectors: 512})
		} else if name, ok := strings.CutPrefix(path, "/dev/"); ok && err == nil {
			d := m.disk(name)
			d.Name = path
			out = append(out, d)
		}
	}
	return out
}
