package uefivars

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Node is a step of a device path (UEFI 2.10, section 10.3).
type Node struct {
	Type, SubType byte
	Data          []byte
}

// DevicePath names a device, from the root of the machine on. The node that ends a
// path is not part of it.
type DevicePath []Node

// Types and subtypes of nodes (UEFI 2.10, sections 10.3.2 to 10.3.5).
const (
	hardware, pci                    = 1, 1
	acpi, acpiDevice                 = 2, 1
	messaging, mac, ipv4, uri        = 3, 11, 12, 24
	usb                              = 5
	ipv6, sata, iscsi                = 13, 18, 19
	media, hardDrive, file           = 4, 1, 4
	endOfPath, endOfWholePath        = 0x7f, 0xff
	pciRootID                 uint32 = 0x0a0341d0 // PNP0A03, compressed
)

// ethernet is the interface type of a MAC node (RFC 3232).
const ethernet = 1

// PCIRoot is the host bridge with a unique id; QEMU's is 0.
func PCIRoot(uid uint32) Node {
	return Node{acpi, acpiDevice, le.AppendUint32(le.AppendUint32(nil, pciRootID), uid)}
}

// PCI is a device on the bus of the node before.
func PCI(device, function uint8) Node { return Node{hardware, pci, []byte{function, device}} }

// MAC is the network card with an Ethernet address.
func MAC(address net.HardwareAddr) Node {
	data := make([]byte, 33)
	copy(data, address)
	data[32] = ethernet
	return Node{messaging, mac, data}
}

// IPv4 is the IPv4 stack of the node before, with addresses by DHCP.
func IPv4() Node { return Node{messaging, ipv4, make([]byte, 23)} }

// prefix6 is the length of a prefix that EDK II writes before it knows one: firmware compares whole nodes.
const prefix6 = 64

// IPv6 is the IPv6 stack of the node before, with addresses by DHCPv6 or a router's prefix.
func IPv6() Node {
	data := make([]byte, 56)
	data[39] = prefix6
	return Node{messaging, ipv6, data}
}

// directly is the multiplier's port of a SATA device that has none.
const directly = 0xffff

// SATA is the device at a port of the SATA controller before.
func SATA(port uint16) Node {
	return Node{messaging, sata, le.AppendUint16(le.AppendUint16(le.AppendUint16(nil, port), directly), 0)}
}

// USB is an interface of the device at a port of the USB controller before. Ports count from 0.
func USB(port, number uint8) Node { return Node{messaging, usb, []byte{port, number}} }

// URI is what the firmware fetches by HTTP through the node before.
func URI(text string) Node { return Node{messaging, uri, []byte(text)} }

// Is tells whether both are the same node.
func (n Node) Is(other Node) bool {
	return n.Type == other.Type && n.SubType == other.SubType && string(n.Data) == string(other.Data)
}

// URI returns what the path's last URI node names; it is empty without one.
func (p DevicePath) URI() string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].Type == messaging && p[i].SubType == uri {
			return string(p[i].Data)
		}
	}
	return ""
}

// Equal tells whether both paths have the same nodes.
func (p DevicePath) Equal(other DevicePath) bool {
	if len(p) != len(other) {
		return false
	}
	for i := range p {
		if !p[i].Is(other[i]) {
			return false
		}
	}
	return true
}

// String is the path as the firmware prints it (UEFI 2.10, section 10.6). Nodes that
// this package does not know are Path(type,subtype,bytes).
func (p DevicePath) String() string {
	var parts []string
	for _, n := range p {
		parts = append(parts, n.String())
	}
	return strings.Join(parts, "/")
}

// String is the node as in DevicePath.String.
func (n Node) String() string {
	switch kind := [2]byte{n.Type, n.SubType}; {
	case kind == [2]byte{acpi, acpiDevice} && len(n.Data) == 8 && le.Uint32(n.Data) == pciRootID:
		return fmt.Sprintf("PciRoot(0x%X)", le.Uint32(n.Data[4:]))
	case kind == [2]byte{hardware, pci} && len(n.Data) == 2:
		return fmt.Sprintf("Pci(0x%X,0x%X)", n.Data[1], n.Data[0])
	case kind == [2]byte{messaging, mac} && len(n.Data) == 33 && n.Data[32] == ethernet:
		return fmt.Sprintf("MAC(%X,0x%X)", n.Data[:6], n.Data[32])
	case kind == [2]byte{messaging, ipv4} && len(n.Data) == 23:
		return fmt.Sprintf("IPv4(%s)", netip.AddrFrom4([4]byte(n.Data[4:8])))
	case kind == [2]byte{messaging, ipv6} && len(n.Data) >= 32:
		return fmt.Sprintf("IPv6(%s)", netip.AddrFrom16([16]byte(n.Data[16:32])))
	case kind == [2]byte{messaging, sata} && len(n.Data) == 6:
		return fmt.Sprintf("Sata(0x%X,0x%X,0x%X)", le.Uint16(n.Data), le.Uint16(n.Data[2:]), le.Uint16(n.Data[4:]))
	case kind == [2]byte{messaging, usb} && len(n.Data) == 2:
		return fmt.Sprintf("USB(0x%X,0x%X)", n.Data[0], n.Data[1])
	case kind == [2]byte{messaging, iscsi} && len(n.Data) >= 14:
		return n.iscsi()
	case kind == [2]byte{messaging, uri}:
		return fmt.Sprintf("Uri(%s)", n.Data)
	case kind == [2]byte{media, hardDrive} && len(n.Data) == 38 && n.Data[37] == 2:
		return fmt.Sprintf("HD(%d,GPT,%s)", le.Uint32(n.Data), guidAt(n.Data[20:]))
	case kind == [2]byte{media, file}:
		return textZ(n.Data)
	}
	return fmt.Sprintf("Path(%d,%d,%X)", n.Type, n.SubType, n.Data)
}

// iscsi is the text of an iSCSI node (UEFI 2.10, section 10.3.4.21).
func (n Node) iscsi() string {
	options := le.Uint16(n.Data[2:])
	digest := func(bit int) string {
		if options>>bit&1 != 0 {
			return "CRC32C"
		}
		return "None"
	}
	proof := "CHAP_BI"
	switch {
	case options>>11&1 != 0:
		proof = "None"
	case options>>12&1 != 0:
		proof = "CHAP_UNI"
	}
	protocol := "reserved"
	if le.Uint16(n.Data) == 0 {
		protocol = "TCP"
	}
	return fmt.Sprintf("iSCSI(%s,0x%X,0x%X,%s,%s,%s,%s)", untilNUL(n.Data[14:]), le.Uint16(n.Data[12:]), n.Data[4:12], digest(1), digest(3), proof, protocol)
}

func (p DevicePath) encode() []byte {
	var raw []byte
	for _, n := range append(p[:len(p):len(p)], Node{Type: endOfPath, SubType: endOfWholePath}) {
		raw = append(raw, n.Type, n.SubType)
		raw = le.AppendUint16(raw, uint16(4+len(n.Data)))
		raw = append(raw, n.Data...)
	}
	return raw
}

// parsePath reads a path to its end and returns what follows.
func parsePath(raw []byte) (path DevicePath, rest []byte, err error) {
	for len(raw) >= 4 {
		length := int(le.Uint16(raw[2:]))
		if length < 4 || length > len(raw) {
			return nil, nil, fmt.Errorf("a node of a device path has %d bytes of %d", length, len(raw))
		}
		n := Node{raw[0], raw[1], append([]byte(nil), raw[4:length]...)}
		raw = raw[length:]
		if n.Type == endOfPath && n.SubType == endOfWholePath {
			return path, raw, nil
		}
		path = append(path, n)
	}
	return nil, nil, errors.New("a device path has no end")
}
