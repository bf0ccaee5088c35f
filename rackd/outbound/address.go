package outbound

import (
	"net"
	"net/netip"
)

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8") // Linux takes 0.0.0.0 for itself
	broadcast   = netip.MustParseAddr("255.255.255.255")

	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052, section 2.1
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")      // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")      // RFC 4380
	siit       = netip.MustParsePrefix("::ffff:0:0:0/96")
	compatible = netip.MustParsePrefix("::/96") // RFC 4291, section 2.5.5.1
)

// special says what an address is that nothing of another machine, or of one beyond this
// link, has; empty for all others.
func special(ip netip.Addr) string {
	switch {
	case ip.IsUnspecified() || ip.Is4() && thisNetwork.Contains(ip):
		return "which is this machine itself"
	case ip.IsLoopback():
		return "a loopback address"
	case ip.IsLinkLocalUnicast():
		return "a link-local address"
	case ip.IsMulticast():
		return "a multicast address"
	case ip == broadcast:
		return "the broadcast address"
	}
	return ""
}

// inside returns the IPv4 addresses that an IPv6 address may be carried on to.
func inside(ip netip.Addr) []netip.Addr {
	if !ip.Is6() {
		return nil
	}
	b := ip.As16()
	four := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	last := four(12, 13, 14, 15)
	switch {
	case nat64.Contains(ip), siit.Contains(ip):
		return []netip.Addr{last}
	case compatible.Contains(ip) && !ip.IsUnspecified() && !ip.IsLoopback():
		return []netip.Addr{last}
	case nat64Local.Contains(ip):
		// The operator of the translator chose the length of its prefix, and with it where
		// the address lies (RFC 6052, section 2.2); byte 8 is left out. Zeros are the
		// bytes of another length.
		var all []netip.Addr
		for _, a := range []netip.Addr{four(6, 7, 9, 10), four(7, 9, 10, 11), four(9, 10, 11, 12), last} {
			if !thisNetwork.Contains(a) {
				all = append(all, a)
			}
		}
		return all
	case sixToFour.Contains(ip):
		return []netip.Addr{four(2, 3, 4, 5)}
	case teredo.Contains(ip): // the server, and the client behind its router, inverted
		for i := 12; i < 16; i++ {
			b[i] = ^b[i]
		}
		return []netip.Addr{four(4, 5, 6, 7), four(12, 13, 14, 15)}
	case b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, RFC 5214
		return []netip.Addr{last}
	}
	return nil
}

// OwnAddresses are those of this machine's interfaces now.
func OwnAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr())
		}
	}
	return own, nil
}
