package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// uplink is a host's interface.
const uplink = "eth0"

// Host is a machine with one address. Safe for concurrent use.
type Host struct {
	Name string
	Addr netip.Addr
	ns   *namespace
	at   *Switch
}

func (h *Host) port() string { return "p-" + h.Name }

// At is the address with a port.
func (h *Host) At(port uint16) string { return netip.AddrPortFrom(h.Addr, port).String() }

// Start starts cmd on the host. It must be called from the thread that waits for cmd
// when cmd has a parent-death signal; that thread must then end.
func (h *Host) Start(cmd *exec.Cmd) error {
	if err := h.enter(); err != nil {
		return err
	}
	return cmd.Start()
}

// DialContext connects from the host. The address must be numeric.
func (h *Host) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial from host %s: %w", h.Name, err)
	}
	err = h.ns.do(func() error {
		// One address, so the dialer makes its socket on this thread.
		c, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, to.String())
		return err
	})
	return c, err
}

// Listen listens on the host. The address must be numeric.
func (h *Host) Listen(network, address string) (l net.Listener, err error) {
	err = h.ns.do(func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// ListenPacket is Listen for datagrams.
func (h *Host) ListenPacket(network, address string) (c net.PacketConn, err error) {
	err = h.ns.do(func() error {
		c, err = net.ListenPacket(network, address)
		return err
	})
	return c, err
}

// Own makes the host take a whole range of the network for its own addresses.
func (h *Host) Own(space netip.Prefix) error {
	return h.ns.do(func() error {
		return withLink("lo", func(lo netlink.Link) error {
			return netlink.RouteReplace(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(space), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL,
				Scope: netlink.SCOPE_HOST})
		})
	})
}

// Unplug takes the host off its switch until Plug.
func (h *Host) Unplug() error { return h.at.ns.do(func() error { return setDown(h.port()) }) }

// Plug puts the host back.
func (h *Host) Plug() error { return h.at.ns.do(func() error { return setUp(h.port()) }) }

// Block makes the host lose what it sends to others, one address each, while the rest
// of the network stays: a conductor that is cut off from its bus and still reaches its
// machines' BMCs.
func (h *Host) Block(others ...*Host) error { return h.routes(netlink.RouteReplace, others) }

// Unblock undoes Block for others.
func (h *Host) Unblock(others ...*Host) error { return h.routes(netlink.RouteDel, others) }

func (h *Host) routes(change func(*netlink.Route) error, others []*Host) error {
	return h.ns.do(func() error {
		for _, o := range others {
			route := &netlink.Route{Dst: ipNet(netip.PrefixFrom(o.Addr, o.Addr.BitLen())), Type: unix.RTN_BLACKHOLE}
			if err := change(route); err != nil {
				return fmt.Errorf("host %s: route to %s: %w", h.Name, o.Name, err)
			}
		}
		return nil
	})
}

// Close forgets the host. It ends with the last program on it.
func (h *Host) Close() { h.ns.file.Close() }
