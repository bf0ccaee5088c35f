package outbound

import (
	"fmt"
	"net/netip"
	"strings"
)

// thisMachine is where every system looks for the names below localhost (RFC 6761, section 6.3).
var thisMachine = netip.MustParseAddr("127.0.0.1")

// literal reads a host that needs no look: an address, or a name of this machine. Its error is for what is no name here and an address
// elsewhere: BMCs read 2130706433, 0x7f.1 and 127.1 as 127.0.0.1, and digits of other scripts too.
func literal(host string) (ip netip.Addr, is bool, err error) {
	for _, r := range host {
		if r > '~' {
			return ip, false, fmt.Errorf("host %.60q has characters beyond ASCII, which may be another host for the one that reads it: give the name as it stands in DNS (xn--…)", host)
		}
	}
	name := strings.TrimSuffix(host, ".")
	if name == "" {
		return ip, false, fmt.Errorf("host %.60q is none: give a name or an address", host)
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip, true, nil
	}
	last := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	if last == "localhost" {
		return thisMachine, true, nil
	}
	if number(last) {
		return ip, false, fmt.Errorf("host %.60q ends in a number and is no address: give four decimal numbers, as in 192.0.2.1, or a name", host)
	}
	return ip, false, nil
}

// number reports whether a label is what a parser of IPv4 addresses takes for a number. No domain at the top is one.
func number(label string) bool {
	digits, set := label, "0123456789"
	if hex, is := strings.CutPrefix(label, "0x"); is {
		digits, set = hex, "0123456789abcdef"
	}
	return strings.Trim(digits, set) == "" && label != ""
}
