package routeradv

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/mdlayher/ndp"
)

const (
	protocolIPv6 = 0x86dd
	nextICMPv6   = 58
	hopLimit     = 255 // of all messages of neighbour discovery (RFC 4861, section 6.1): no router has forwarded it
	ethernetSize = 14
	ipv6Size     = 40
)

var (
	allNodes      = netip.MustParseAddr("ff02::1")
	allRouters    = netip.MustParseAddr("ff02::2")
	allNodesMAC   = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	allRoutersMAC = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 2}
)

// message is a router message that was received.
type message struct {
	from       net.HardwareAddr
	source     netip.Addr
	advertises bool          // else it solicits
	lifetime   time.Duration // of an advertisement
	dhcp       bool          // an advertisement sends hosts to DHCPv6
}

// read reads a frame that came to the interface with the MAC address own. Advertisements count that all hosts, or
// this one, are to hear: another rackd's answers to machines do not.
func read(frame []byte, own net.HardwareAddr) (m message, ok bool) {
	if len(frame) < ethernetSize+ipv6Size || binary.BigEndian.Uint16(frame[12:]) != protocolIPv6 {
		return m, false
	}
	to, from, ip := net.HardwareAddr(frame[:6]), net.HardwareAddr(bytes.Clone(frame[6:12])), frame[ethernetSize:]
	length := int(binary.BigEndian.Uint16(ip[4:]))
	if ip[0]>>4 != 6 || ip[6] != nextICMPv6 || ip[7] != hopLimit || len(ip) < ipv6Size+length || bytes.Equal(from, own) || from[0]&1 != 0 {
		return m, false
	}
	body := ip[ipv6Size : ipv6Size+length]
	m = message{from: from, source: netip.AddrFrom16([16]byte(ip[8:24]))}
	parsed, err := ndp.ParseMessage(body)
	if err != nil {
		return m, false
	}
	switch p := parsed.(type) {
	case *ndp.RouterSolicitation:
		return m, m.source.IsUnspecified() || m.source.IsLinkLocalUnicast()
	case *ndp.RouterAdvertisement:
		m.advertises, m.lifetime, m.dhcp = true, p.RouterLifetime, p.ManagedConfiguration || p.OtherConfiguration
		return m, m.source.IsLinkLocalUnicast() && (bytes.Equal(to, allNodesMAC) || bytes.Equal(to, own))
	}
	return m, false
}

// advertisement is the answer to a solicitation. It goes to the machine's MAC address also where the machine has
// no IPv6 address yet (RFC 6085). With a prefix it sends the machine to DHCPv6, and says that the prefix is on the link:
// an address by DHCPv6 says nothing of that. It makes no host give itself an address. The prefix stays until the
// machine starts again, because the server repeats nothing.
func advertisement(mac net.HardwareAddr, to message, prefix netip.Prefix) []byte {
	destination := to.source
	if destination.IsUnspecified() {
		destination = allNodes
	}
	a := &ndp.RouterAdvertisement{Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac}}}
	if prefix.IsValid() {
		a.ManagedConfiguration, a.OtherConfiguration = true, true
		a.Options = append(a.Options, &ndp.PrefixInformation{Prefix: prefix.Masked().Addr(), PrefixLength: uint8(prefix.Bits()), OnLink: true, ValidLifetime: ndp.Infinity, PreferredLifetime: ndp.Infinity})
	}
	return frame(mac, to.from, linkLocal(mac), destination, a)
}

// solicitation asks routers to say that they are there.
func solicitation(mac net.HardwareAddr) []byte {
	return frame(mac, allRoutersMAC, netip.IPv6Unspecified(), allRouters, &ndp.RouterSolicitation{})
}

func frame(from, to net.HardwareAddr, source, destination netip.Addr, m ndp.Message) []byte {
	body, err := ndp.MarshalMessageChecksum(m, source, destination)
	if err != nil {
		panic(err) // both messages are written above, and are well formed
	}
	b := append(append(make([]byte, 0, ethernetSize+ipv6Size+len(body)), to...), from...)
	b = binary.BigEndian.AppendUint16(b, protocolIPv6)
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	b = append(b, nextICMPv6, hopLimit)
	b = append(append(b, source.AsSlice()...), destination.AsSlice()...)
	return append(b, body...)
}

// linkLocal is the address that follows from a MAC address (RFC 4291, appendix A). The interface need not have it.
func linkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
}
