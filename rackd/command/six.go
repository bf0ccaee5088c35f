package command

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ironyard/ironyard/rackd/daemon"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
)

// six reads what the flags say of IPv6.
func (f flags) six(r *daemon.Rack) error {
	if !f.Address6.IsValid() {
		if len(f.DHCP6Range) > 0 {
			return fmt.Errorf("--dhcp6-range %s needs --address6, the IPv6 address of this rackd", strings.Join(f.DHCP6Range, ","))
		}
		return nil
	}
	if a := f.Address6; !a.Is6() || a.Is4In6() || a.Zone() != "" || !a.IsGlobalUnicast() {
		return fmt.Errorf("--address6 %s: it must be a global or unique local IPv6 address, without a zone", a)
	}
	if f.Prefix6 < 8 || f.Prefix6 > 126 {
		return fmt.Errorf("--prefix6 %d: it must be 8 to 126", f.Prefix6)
	}
	r.Address6, r.DHCP6 = f.Address6, f.DHCP6
	own := netip.PrefixFrom(f.Address6, f.Prefix6).Masked()
	r.Subnets6 = []dhcp.Subnet{{Prefix: own}}
	if f.DHCP6 == "serve" && f.Prefix6 <= 64 {
		r.Subnets6[0] = dhcp.Subnet6(f.Address6, f.Prefix6)
	}
	given := f.Prefix6 <= 64
	for _, text := range f.DHCP6Range {
		n, err := f.subnet6(text)
		if err != nil {
			return err
		}
		if n.Prefix == own {
			r.Subnets6[0], given = n, true
		} else {
			r.Subnets6 = append(r.Subnets6, n)
		}
	}
	if f.DHCP6 == "serve" && !given {
		return fmt.Errorf("--dhcp6-range: give one of %s, the network of --address6; a network of less than 64 bits for hosts has no default", own)
	}
	return nil
}

// subnet6 reads a range, whose network its first address says.
func (f flags) subnet6(text string) (n dhcp.Subnet, err error) {
	from, to, ok := strings.Cut(text, "-")
	var err1, err2 error
	n.From, err1 = netip.ParseAddr(from)
	n.To, err2 = netip.ParseAddr(to)
	if !ok || err1 != nil || err2 != nil || !n.From.Is6() || !n.To.Is6() || n.From.Is4In6() || n.From.Zone() != "" || n.To.Zone() != "" {
		return n, fmt.Errorf("--dhcp6-range %q: want FROM-TO, two IPv6 addresses", text)
	}
	n.Prefix = netip.PrefixFrom(n.From, f.Prefix6).Masked()
	if !n.Prefix.Contains(n.To) || n.To.Less(n.From) {
		return n, fmt.Errorf("--dhcp6-range %s: want a first and a last address of one network with --prefix6 %d", text, f.Prefix6)
	}
	return n, nil
}
