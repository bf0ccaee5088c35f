package network

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const bridge = "br0"

// Prefix is the network of all hosts.
var Prefix = netip.MustParsePrefix("10.77.0.0/16")

// Switch is a place where hosts meet. Safe for concurrent use.
type Switch struct {
	name string
	ns   *namespace
}

// NewSwitch makes a switch.
func NewSwitch(name string) (*Switch, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	err = ns.do(func() error {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}); err != nil {
			return err
		}
		return setUp(bridge)
	})
	if err != nil {
		return nil, fmt.Errorf("making switch %s: %w", name, err)
	}
	return &Switch{name, ns}, nil
}

// Host makes a host with an address of Prefix. Its name, of at most 12 bytes, is that
// of the switch's port too.
func (s *Switch) Host(name string, addr netip.Addr) (*Host, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	h := &Host{Name: name, Addr: addr, ns: ns, at: s}
	err = s.ns.do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: h.port()}, PeerName: uplink, PeerNamespace: netlink.NsFd(ns.file.Fd())}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		return attach(h.port(), bridge)
	})
	if err == nil {
		err = ns.do(func() error {
			if err := addAddress(uplink, netip.PrefixFrom(addr, Prefix.Bits())); err != nil {
				return err
			}
			return setUp(uplink)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("attaching host %s to switch %s: %w", name, s.name, err)
	}
	return h, nil
}

// Close forgets the switch. It ends with the last that holds it.
func (s *Switch) Close() { s.ns.file.Close() }

// tap makes a TAP device as a port and returns its file's number.
func (s *Switch) tap(name string) (fd int, err error) {
	err = s.ns.do(func() error {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			return fmt.Errorf("/dev/net/tun: %w", err)
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return fmt.Errorf("TUNSETIFF: %w", err)
		}
		return attach(name, bridge)
	})
	return fd, err
}
