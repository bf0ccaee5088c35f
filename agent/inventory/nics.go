package inventory

import (
	"cmp"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// NICs lists the Ethernet interfaces, virtual ones without hardware left out.
func (m Machine) NICs() []agentapi.NIC {
	out := []agentapi.NIC{}
	for _, name := range m.names("/sys/class/net") {
		at := func(elem ...string) []string { return append([]string{"/sys/class/net", name}, elem...) }
		device := m.target(at("device")...)
		if device == "" || m.text(at("type")...) != "1" {
			continue
		}
		n := agentapi.NIC{
			Name: name, MACAddress: m.ownMAC(name), HasCarrier: m.text(at("carrier")...) == "1",
			Vendor: m.text(at("device/vendor")...), Product: m.text(at("device/device")...),
			Driver: filepath.Base(m.target(at("device/driver")...)),
		}
		if n.Driver == "/" || n.Driver == "." {
			n.Driver = ""
		}
		if s := m.number(at("speed")...); s > 0 {
			n.SpeedMbps = int(s)
		}
		n.PCIAddress = pciAddress(device)
		if m.Root == "" {
			for _, carries := range m.upwards(name, nil) {
				v4, v6 := addresses(carries)
				n.IPv4Address, n.IPv6Address = cmp.Or(n.IPv4Address, v4), cmp.Or(n.IPv6Address, v6)
			}
		}
		out = append(out, n)
	}
	return out
}

// ownMAC is the MAC address that a card was made with, where a bond has given it its own.
func (m Machine) ownMAC(name string) string {
	return cmp.Or(m.text("/sys/class/net", name, "bonding_slave", "perm_hwaddr"), m.text("/sys/class/net", name, "address"))
}

// upwards are an interface, and the bonds and VLANs on it: their addresses are reached by it.
func (m Machine) upwards(name string, list []string) []string {
	if slices.Contains(list, name) {
		return list
	}
	list = append(list, name)
	for _, entry := range m.names(filepath.Join("/sys/class/net", name)) {
		if on, is := strings.CutPrefix(entry, "upper_"); is {
			list = m.upwards(on, list)
		}
	}
	return list
}

// pciAddress is the nearest PCI function above a device (virtio sits one below it).
func pciAddress(path string) string {
	for ; len(path) > 1; path = filepath.Dir(path) {
		if base := filepath.Base(path); len(base) == len("0000:00:00.0") && base[4] == ':' && base[7] == ':' && base[10] == '.' {
			return base
		}
	}
	return ""
}

func addresses(name string) (v4, v6 string) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return "", ""
	}
	all, err := i.Addrs()
	if err != nil {
		return "", ""
	}
	for _, a := range all {
		ip, ok := a.(*net.IPNet)
		switch {
		case !ok:
		case ip.IP.To4() != nil && v4 == "":
			v4 = ip.IP.String()
		case ip.IP.To4() == nil && v6 == "":
			v6 = ip.IP.String()
		}
	}
	return v4, v6
}
