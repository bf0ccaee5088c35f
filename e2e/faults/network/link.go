package network

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// These act in the calling thread's namespace.

func setUp(name string) error   { return withLink(name, netlink.LinkSetUp) }
func setDown(name string) error { return withLink(name, netlink.LinkSetDown) }

func withLink(name string, do func(netlink.Link) error) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = do(link)
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return nil
}

// attach makes a bridge's port of an interface and sets it up.
func attach(port, bridge string) error {
	return withLink(bridge, func(b netlink.Link) error {
		return withLink(port, func(p netlink.Link) error {
			if err := netlink.LinkSetMasterByIndex(p, b.Attrs().Index); err != nil {
				return err
			}
			return netlink.LinkSetUp(p)
		})
	})
}

func addAddress(name string, p netip.Prefix) error {
	return withLink(name, func(l netlink.Link) error {
		return netlink.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p)})
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
