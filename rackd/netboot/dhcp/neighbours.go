package dhcp

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Neighbours answers Config6.Neighbour from the kernel's table of an interface's network. Safe for concurrent use.
type Neighbours struct{ Interface string }

// discard is a port at which hosts answer nothing.
const discard = 9

// MAC returns the MAC address of a host, as it has told the kernel. For one that the kernel does not know the kernel
// is made to ask: the host's next request finds the answer.
func (n Neighbours) MAC(a netip.Addr) (mac string, ok bool) {
	i, err := net.InterfaceByName(n.Interface)
	if err != nil {
		return "", false
	}
	list, err := netlink.NeighList(i.Index, netlink.FAMILY_V6)
	if err != nil {
		return "", false
	}
	for _, e := range list {
		if at, is := netip.AddrFromSlice(e.IP); is && at == a.WithZone("") && len(e.HardwareAddr) == 6 && e.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
			return e.HardwareAddr.String(), true
		}
	}
	conn, err := net.DialUDP("udp6", nil, &net.UDPAddr{IP: a.AsSlice(), Zone: n.Interface, Port: discard})
	if err != nil {
		return "", false
	}
	_, _ = conn.Write([]byte{0}) // what comes of it the table shows
	conn.Close()
	return "", false
}
