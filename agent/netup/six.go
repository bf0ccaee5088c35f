package netup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	tryFor6 = time.Second // for an answer to the first of DHCPv6's packets; each further one has double the time
	// asksEvery is the longest pause between two attempts: most networks have no DHCPv6.
	asksEvery = time.Minute
	// settleFor bounds the kernel's search for another host with the same address (RFC 4862, section 5.4).
	settleFor = 10 * time.Second
	settles   = 50 * time.Millisecond
	// exchangeFor bounds the questions for a lease, with all that is sent again.
	exchangeFor = 30 * time.Second
)

// errTaken: another host has the address.
var errTaken = errors.New("another host has this address")

// keep6 holds an address by DHCPv6 on one interface. Router advertisements are the kernel's: it makes addresses and
// routes of them. leased is called once there is an address of either kind.
func (m *Manager) keep6(ctx context.Context, name string, metric int, leased func()) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { m.watch6(ctx, name, leased) })
	for wait := time.Second; ctx.Err() == nil; {
		if !m.carrier(ctx, name) {
			return
		}
		lease, s, err := m.ask6(ctx, name)
		if err == nil {
			err = m.apply6(ctx, name, metric, s)
		}
		if errors.Is(err, errTaken) {
			m.drop(name, metric, s)
			err = errors.Join(err, m.decline6(ctx, name, lease))
		}
		if err != nil {
			m.Log.Debug("no DHCPv6 lease", "interface", name, "error", err)
			pause(ctx, wait)
			wait = min(2*wait, asksEvery)
			continue
		}
		m.Log.Info("network is up by DHCPv6", "interface", name, "address", s.addr, "lease", s.expire)
		m.boot.leased(leasedAt{name, true}, s.addr, lease.Options.BootFileURL())
		m.renewing6(ctx, name, metric, lease, s)
		wait = time.Second
	}
}

// watch6 waits for the first address that leads further than the link.
func (m *Manager) watch6(ctx context.Context, name string, leased func()) {
	for ctx.Err() == nil {
		if a, ok := usable6(name, netip.Addr.IsGlobalUnicast); ok {
			m.Log.Info("network is up by IPv6", "interface", name, "address", a)
			leased()
			return
		}
		pause(ctx, look)
	}
}

// usable6 returns an address of the interface that the kernel lets be used.
func usable6(name string, fits func(netip.Addr) bool) (netip.Addr, bool) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return netip.Addr{}, false
	}
	list, err := netlink.AddrList(l, netlink.FAMILY_V6)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range list {
		if at, ok := netip.AddrFromSlice(a.IP); ok && a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0 && fits(at) {
			return at, true
		}
	}
	return netip.Addr{}, false
}

// client6 opens a client, once the interface has its link-local address.
func client6(ctx context.Context, name string) (*nclient6.Client, error) {
	for began := time.Now(); ; pause(ctx, settles) {
		if _, ok := usable6(name, netip.Addr.IsLinkLocalUnicast); ok {
			break
		}
		if ctx.Err() != nil || time.Since(began) > settleFor {
			return nil, errors.New("the interface has no link-local address")
		}
	}
	return nclient6.New(name, nclient6.WithTimeout(tryFor6), nclient6.WithRetry(tries))
}

// as6 are the options of all messages of this machine: who it is, and what it asks for.
func (m *Manager) as6(mac net.HardwareAddr) []dhcpv6.Modifier {
	mods := []dhcpv6.Modifier{dhcpv6.WithClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: mac})}
	if m.BootClass != "" {
		// Intel's number is the one under which boot clients give their class.
		mods = append(mods, dhcpv6.WithOption(&dhcpv6.OptVendorClass{EnterpriseNumber: 343, Data: [][]byte{[]byte(m.BootClass)}}),
			dhcpv6.WithRequestedOptions(dhcpv6.OptionBootfileURL))
	}
	return mods
}

// ask6 gets a lease.
func (m *Manager) ask6(ctx context.Context, name string) (*dhcpv6.Message, settings, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeFor)
	defer cancel()
	c, err := client6(ctx, name)
	if err != nil {
		return nil, settings{}, err
	}
	defer c.Close()
	as := m.as6(c.InterfaceAddr())
	solicit, err := dhcpv6.NewSolicit(c.InterfaceAddr(), as...)
	if err != nil {
		return nil, settings{}, err
	}
	// A server that has no address for this machine may answer before the one that has (RFC 8415, section 18.2.9).
	offer, err := c.SendAndRead(ctx, nclient6.AllDHCPRelayAgentsAndServers, solicit, func(r *dhcpv6.Message) bool {
		_, err := read6(r)
		return r.Type() == dhcpv6.MessageTypeAdvertise && err == nil
	})
	if err != nil {
		return nil, settings{}, err
	}
	request, err := dhcpv6.NewRequestFromAdvertise(offer, as...)
	if err != nil {
		return nil, settings{}, err
	}
	said, err := c.SendAndRead(ctx, nclient6.AllDHCPRelayAgentsAndServers, request, nclient6.IsMessageType(dhcpv6.MessageTypeReply))
	if err != nil {
		return nil, settings{}, err
	}
	s, err := read6(said)
	return said, s, err
}

// read6 turns a reply into settings, refusing what cannot be used.
func read6(m *dhcpv6.Message) (settings, error) {
	if st := m.Options.Status(); st != nil && st.StatusCode != iana.StatusSuccess {
		return settings{}, fmt.Errorf("the server says %s: %q", st.StatusCode, st.StatusMessage)
	}
	ia := m.Options.OneIANA()
	if ia == nil {
		return settings{}, errors.New("the lease has no address")
	}
	if st := ia.Options.Status(); st != nil && st.StatusCode != iana.StatusSuccess {
		return settings{}, fmt.Errorf("the server says %s: %q", st.StatusCode, st.StatusMessage)
	}
	for _, o := range ia.Options.Addresses() {
		at, ok := netip.AddrFromSlice(o.IPv6Addr)
		if !ok || !at.IsGlobalUnicast() || at.Is4In6() || o.ValidLifetime <= 0 {
			continue
		}
		s := settings{addr: netip.PrefixFrom(at, 128), expire: max(o.ValidLifetime, minLease), renew: ia.T1, rebind: ia.T2}
		if s.renew <= 0 || s.renew >= s.expire {
			s.renew = s.expire / 2
		}
		if s.rebind <= s.renew || s.rebind >= s.expire {
			s.rebind = s.renew + (s.expire-s.renew)/4*3 // a lease without an end leaves no room for three times that
		}
		for _, d := range m.Options.DNS() {
			if at, ok := netip.AddrFromSlice(d); ok && at.IsGlobalUnicast() {
				s.dns = append(s.dns, at.String())
			}
		}
		return s, nil
	}
	return settings{}, errors.New("the lease has no usable address")
}

// apply6 gives the interface the address, and waits until the kernel has looked for another host with it.
func (m *Manager) apply6(ctx context.Context, name string, metric int, s settings) error {
	if err := m.apply(name, metric, s); err != nil {
		return err
	}
	for began := time.Now(); ; pause(ctx, settles) {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		list, err := netlink.AddrList(l, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		flags := unix.IFA_F_DADFAILED // the kernel may drop an address that another host has
		for _, a := range list {
			if at, ok := netip.AddrFromSlice(a.IP); ok && at == s.addr.Addr() {
				flags = a.Flags
			}
		}
		switch {
		case flags&unix.IFA_F_DADFAILED != 0:
			return errTaken
		case flags&unix.IFA_F_TENTATIVE == 0:
			return nil
		case ctx.Err() != nil || time.Since(began) > settleFor:
			return errors.New("the kernel has not found out whether another host has the address")
		}
	}
}

// exchange6 sends a message about a lease and returns the first answer that fits; nil: all do. server is the one that is to answer;
// nil: any.
func (m *Manager) exchange6(ctx context.Context, name string, kind dhcpv6.MessageType, lease *dhcpv6.Message, server dhcpv6.DUID, fits func(*dhcpv6.Message) bool) (*dhcpv6.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeFor)
	defer cancel()
	c, err := client6(ctx, name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	request, err := dhcpv6.NewMessage(m.as6(c.InterfaceAddr())...)
	if err != nil {
		return nil, err
	}
	request.MessageType = kind
	request.AddOption(dhcpv6.OptElapsedTime(0))
	if server != nil {
		request.AddOption(dhcpv6.OptServerID(server))
	}
	if lease != nil {
		request.AddOption(lease.Options.OneIANA())
	}
	return c.SendAndRead(ctx, nclient6.AllDHCPRelayAgentsAndServers, request, func(r *dhcpv6.Message) bool {
		by := r.Options.ServerID()
		return r.Type() == dhcpv6.MessageTypeReply && by != nil && (server == nil || by.Equal(server)) && (fits == nil || fits(r))
	})
}

// decline6 tells the server that another host has the address.
func (m *Manager) decline6(ctx context.Context, name string, lease *dhcpv6.Message) error {
	_, err := m.exchange6(ctx, name, dhcpv6.MessageTypeDecline, lease, lease.Options.ServerID(), nil)
	return err
}

// renewing6 returns when the lease has gone, and the address with it, or ctx has ended: as renewing does.
func (m *Manager) renewing6(ctx context.Context, name string, metric int, lease *dhcpv6.Message, s settings) {
	for {
		given := time.Now()
		pause(ctx, s.renew)
		for {
			gone := time.Since(given)
			if ctx.Err() != nil {
				return
			}
			if gone >= s.expire {
				m.Log.Warn("DHCPv6 lease ran out, giving its address up and asking from the start", "interface", name, "address", s.addr)
				m.drop(name, metric, s)
				return
			}
			kind, server, until := dhcpv6.MessageTypeRenew, lease.Options.ServerID(), s.rebind
			if gone >= s.rebind {
				kind, server, until = dhcpv6.MessageTypeRebind, nil, s.expire
			}
			bounded, cancel := context.WithTimeout(ctx, until-gone)
			said, err := m.exchange6(bounded, name, kind, lease, server, nil)
			cancel()
			if err == nil {
				fresh, refused := read6(said)
				if refused != nil || fresh.addr != s.addr {
					m.Log.Warn("the DHCPv6 server refuses the address, giving it up and asking from the start", "interface", name, "address", s.addr, "error", refused)
					m.drop(name, metric, s)
					return
				}
				if err = m.apply(name, metric, fresh); err == nil { // its name servers may be others
					lease, s = said, fresh
					break
				}
			}
			m.Log.Warn("DHCPv6 lease not renewed yet", "interface", name, "error", err)
			pause(ctx, min(until-time.Since(given), max(s.expire/8, time.Second)))
		}
	}
}

// inform6 asks all DHCPv6 servers for a boot file and returns the first that fits.
func (m *Manager) inform6(ctx context.Context, name string, fit func(string) bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, informAll)
	defer cancel()
	said, err := m.exchange6(ctx, name, dhcpv6.MessageTypeInformationRequest, nil, nil, func(r *dhcpv6.Message) bool { return fit(r.Options.BootFileURL()) })
	if err != nil {
		return "", err
	}
	return said.Options.BootFileURL(), nil
}
