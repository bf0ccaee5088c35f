// Package netup configures the ramdisk's network, and keeps the leases. It does so as network_data says where there is
// some, with bonds and VLANs, and by DHCP and DHCPv6 elsewhere.
//
// It may import protocol/networkdata. The interface that the firmware booted
// from comes first: it gets its lease, the best route and the resolver before the
// others are asked. Invariants: an interface without carrier costs nothing but a
// look each second; a lease is renewed in time, and one that ran out, or that
// a server refuses, goes with its address and is asked for from the start; what a DHCP server says is checked before it is believed.
package netup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"

	"github.com/ironyard/ironyard/protocol/networkdata"
)

const (
	// bootAlone is how long the boot interface has the network for itself.
	bootAlone = 15 * time.Second
	look      = 500 * time.Millisecond
	tryFor    = 3 * time.Second // for an answer to one DHCP packet
	tries     = 3
	// scanFor bounds the wait for drivers to make interfaces appear.
	scanFor = 30 * time.Second
)

// Manager keeps the machine's leases. Its fields are set before Run.
type Manager struct {
	Log *slog.Logger
	// BootMAC names the interface that comes first; empty: none does.
	BootMAC string
	// ResolvConf is the resolver's file to write.
	ResolvConf string
	// Given is what the node's network_data says of interfaces, which the ramdisk's medium has brought; nil: all ask DHCP. With it, those
	// that it does not name get no address.
	Given []networkdata.Interface
	// Modules has the kernel load what it needs to make bonds and VLANs; nil: it has that. It is called once, if network_data has any.
	Modules func()
	// BootClass is the vendor class with which DHCP servers are asked for a boot file; empty: they are not.
	BootClass string

	once  sync.Once
	ready chan struct{}
	boot  bootFiles
	names names
}

// Ready is closed when the first interface has a lease.
func (m *Manager) Ready() <-chan struct{} {
	m.once.Do(func() { m.ready = make(chan struct{}) })
	return m.ready
}

// Run brings all interfaces up and keeps their leases until ctx ends. It returns
// an error only if the machine has no interface.
func (m *Manager) Run(ctx context.Context) error {
	m.Ready()
	if lo, err := netlink.LinkByName("lo"); err == nil {
		if err := netlink.LinkSetUp(lo); err != nil {
			m.Log.Warn("cannot bring up the loopback interface", "error", err)
		}
	}
	if m.Given != nil {
		if err := m.clear(); err != nil {
			return err
		}
	}
	links, err := m.scan(ctx)
	if err != nil {
		return err
	}
	var leased sync.Once
	ready := func() { leased.Do(func() { close(m.ready) }) }
	if m.Given != nil {
		return m.runGiven(ctx, links, ready)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	first := make(chan struct{})
	hasBoot := false
	for i, l := range links {
		name, boot := l.Attrs().Name, m.isBoot(l)
		hasBoot = hasBoot || boot
		if err := netlink.LinkSetUp(l); err != nil {
			m.Log.Warn("cannot bring up interface", "interface", name, "error", err)
			continue
		}
		wg.Go(func() {
			if !boot {
				select {
				case <-first:
				case <-ctx.Done():
					return
				}
			}
			metric := 100 + 10*(i+1)
			if boot {
				metric = 100
			}
			wg.Go(func() { m.keep6(ctx, name, metric, ready) })
			m.keep(ctx, name, metric, settings{}, ready)
		})
	}
	wg.Go(func() {
		defer close(first)
		if !hasBoot {
			if m.BootMAC != "" {
				m.Log.Warn("the interface that the firmware booted from is not here, trying all", "mac", m.BootMAC)
			}
			return
		}
		select {
		case <-m.ready:
		case <-time.After(bootAlone):
			m.Log.Warn("no lease on the boot interface yet, trying the others too", "mac", m.BootMAC)
		case <-ctx.Done():
		}
	})
	<-ctx.Done()
	return nil
}

func (m *Manager) isBoot(l netlink.Link) bool {
	return strings.EqualFold(l.Attrs().HardwareAddr.String(), m.BootMAC)
}

// scan waits for Ethernet interfaces, and for the boot interface if one is named. With network_data it waits for all cards that this names.
func (m *Manager) scan(ctx context.Context) ([]netlink.Link, error) {
	var awaited []string
	for _, g := range m.Given {
		if g.Bond == nil && g.VLAN == nil {
			awaited = append(awaited, g.MAC)
		}
	}
	if m.Given == nil && m.BootMAC != "" {
		awaited = []string{m.BootMAC}
	}
	for began := time.Now(); ; {
		all, err := netlink.LinkList()
		if err != nil {
			return nil, fmt.Errorf("listing network interfaces: %w", err)
		}
		var out []netlink.Link
		for _, l := range all {
			if a := l.Attrs(); a.EncapType == "ether" && a.Flags&net.FlagLoopback == 0 && len(a.HardwareAddr) == 6 {
				out = append(out, l)
			}
		}
		whole := !slices.ContainsFunc(awaited, func(mac string) bool {
			return !slices.ContainsFunc(out, func(l netlink.Link) bool { return strings.EqualFold(l.Attrs().HardwareAddr.String(), mac) })
		})
		waited := time.Since(began) > scanFor
		if len(out) > 0 && (whole || waited) {
			return out, nil
		}
		if waited {
			return nil, fmt.Errorf("the machine shows no network interface within %v: does the ramdisk have its driver?", scanFor)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(look):
		}
	}
}

// keep holds a lease on one interface. What network_data says beside it is also set.
func (m *Manager) keep(ctx context.Context, name string, metric int, beside settings, leased func()) {
	for ctx.Err() == nil {
		if !m.carrier(ctx, name) {
			return
		}
		lease, s, err := m.ask(ctx, name)
		if err != nil {
			level := slog.LevelWarn
			if _, ok := usable6(name, netip.Addr.IsGlobalUnicast); ok {
				level = slog.LevelDebug // the network is one of IPv6
			}
			m.Log.Log(ctx, level, "no DHCP lease", "interface", name, "error", err)
			pause(ctx, time.Second)
			continue
		}
		s = s.with(beside)
		if err := m.apply(name, metric, s); err != nil {
			m.Log.Error("cannot use DHCP lease", "interface", name, "address", s.addr, "error", err)
			pause(ctx, time.Second)
			continue
		}
		m.Log.Info("network is up", "interface", name, "address", s.addr, "server", lease.ACK.ServerIdentifier(), "lease", s.expire, "mtu", s.mtu)
		m.boot.leased(leasedAt{name, false}, s.addr, bootFile(lease.ACK))
		leased()
		m.renewing(ctx, name, metric, beside, lease, s)
	}
}

// renewing returns when the lease has gone, and the address with it, or ctx has ended.
func (m *Manager) renewing(ctx context.Context, name string, metric int, beside settings, lease *nclient4.Lease, s settings) {
	for {
		given := time.Now()
		pause(ctx, s.renew)
		for {
			gone := time.Since(given)
			if ctx.Err() != nil {
				return
			}
			if gone >= s.expire {
				m.Log.Warn("DHCP lease ran out, giving its address up and asking from the start", "interface", name, "address", s.addr)
				m.drop(name, metric, s)
				return
			}
			next, fresh, err := m.renew(ctx, name, lease, s, gone)
			if _, refused := errors.AsType[*nclient4.ErrNak](err); refused || err == nil && fresh.addr != s.addr {
				m.Log.Warn("the DHCP server refuses the address, giving it up and asking from the start", "interface", name, "address", s.addr)
				m.drop(name, metric, s)
				return
			}
			if err == nil {
				fresh = fresh.with(beside)
				if err = m.apply(name, metric, fresh); err == nil {
					lease, s = next, fresh
					break
				}
			}
			m.Log.Warn("DHCP lease not renewed yet", "interface", name, "error", err)
			change := s.expire // of what is done
			if gone < s.rebind {
				change = s.rebind
			}
			pause(ctx, min(change-time.Since(given), max(s.expire/8, time.Second)))
		}
	}
}

// ask gets a lease.
func (m *Manager) ask(ctx context.Context, name string) (*nclient4.Lease, settings, error) {
	c, err := nclient4.New(name, nclient4.WithTimeout(tryFor), nclient4.WithRetry(tries))
	if err != nil {
		return nil, settings{}, err
	}
	defer c.Close()
	wanted := []dhcpv4.Modifier{dhcpv4.WithRequestedOptions(dhcpv4.OptionInterfaceMTU, dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName)}
	lease, err := c.Request(ctx, append(wanted, m.asBootClient()...)...)
	if err != nil {
		return nil, settings{}, err
	}
	s, err := read(lease.ACK)
	return lease, s, err
}

// renew asks to go on with a lease, some time after it was given: its own server at first,
// and any when that has been silent for long (RFC 2131, section 4.4.5). A refusal is a
// *nclient4.ErrNak. It does not take longer than the lease lasts.
func (m *Manager) renew(ctx context.Context, name string, old *nclient4.Lease, s settings, gone time.Duration) (*nclient4.Lease, settings, error) {
	until, takes := s.rebind, nclient4.IsMessageType(dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak)
	if gone < s.rebind {
		takes = nclient4.IsAll(nclient4.IsCorrectServer(old.ACK.ServerIdentifier()), takes)
	} else {
		until = s.expire
	}
	ctx, cancel := context.WithTimeoutCause(ctx, until-gone, errors.New("no answer"))
	defer cancel()
	c, err := nclient4.New(name, nclient4.WithTimeout(tryFor), nclient4.WithRetry(tries))
	if err != nil {
		return nil, settings{}, err
	}
	defer c.Close()
	request, err := dhcpv4.NewRenewFromAck(old.ACK, dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)))
	if err != nil {
		return nil, settings{}, err
	}
	said, err := c.SendAndRead(ctx, nclient4.DefaultServers, request, takes)
	if err != nil {
		return nil, settings{}, err
	}
	if said.MessageType() == dhcpv4.MessageTypeNak {
		return nil, settings{}, &nclient4.ErrNak{Offer: old.Offer, Nak: said}
	}
	lease := &nclient4.Lease{Offer: old.Offer, ACK: said, CreationTime: time.Now()}
	fresh, err := read(said)
	return lease, fresh, err
}

// drop takes a lease's address and routes off the interface: another machine may be given
// them now.
func (m *Manager) drop(name string, metric int, s settings) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return // it has gone with the interface
	}
	for _, r := range s.routes {
		nr := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: toNet(r.to), Priority: metric}
		if r.via.IsValid() {
			nr.Gw = r.via.AsSlice()
		} else {
			nr.Scope = netlink.SCOPE_LINK
		}
		if err := netlink.RouteDel(nr); err != nil && !errors.Is(err, syscall.ESRCH) {
			m.Log.Warn("cannot remove a route of the lease", "interface", name, "to", r.to, "error", err)
		}
	}
	if err := netlink.AddrDel(l, &netlink.Addr{IPNet: toNet(s.addr)}); err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		m.Log.Error("cannot give up the address of the lease", "interface", name, "address", s.addr, "error", err)
	}
}

func (m *Manager) apply(name string, metric int, s settings) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if s.mtu != 0 && s.mtu != l.Attrs().MTU {
		if err := netlink.LinkSetMTU(l, s.mtu); err != nil {
			m.Log.Warn("the interface does not take the MTU of the lease", "interface", name, "mtu", s.mtu, "error", err)
		}
	}
	if err := netlink.AddrReplace(l, &netlink.Addr{IPNet: toNet(s.addr)}); err != nil {
		return fmt.Errorf("setting address: %w", err)
	}
	if err := m.route(name, metric, s.routes); err != nil {
		return err
	}
	if metric == 100 || m.BootMAC == "" {
		source := ofDHCP
		if s.addr.Addr().Is6() {
			source = ofDHCP6
		}
		m.resolve(source, s)
	}
	return nil
}

// route sets routes by an interface.
func (m *Manager) route(name string, metric int, routes []route) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, r := range routes {
		nr := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: toNet(r.to), Priority: metric}
		if r.via.IsValid() {
			nr.Gw = r.via.AsSlice()
			// A gateway outside the prefix (a /32 lease) is on this link all the same.
			nr.Flags = int(netlink.FLAG_ONLINK)
		} else {
			nr.Scope = netlink.SCOPE_LINK
		}
		if err := netlink.RouteReplace(nr); err != nil {
			return fmt.Errorf("setting route to %v: %w", r.to, err)
		}
	}
	return nil
}

// carrier waits for a cable; false means that ctx has ended.
func (m *Manager) carrier(ctx context.Context, name string) bool {
	for ctx.Err() == nil {
		if l, err := netlink.LinkByName(name); err == nil && l.Attrs().RawFlags&0x10000 != 0 { // IFF_LOWER_UP
			return true
		}
		pause(ctx, look)
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
