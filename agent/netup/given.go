package netup

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"

	"github.com/ironyard/ironyard/protocol/networkdata"
)

// ReadGiven reads the node's network_data from the file at which the ramdisk's medium has put it; nil where it has brought none.
func ReadGiven(path string) ([]networkdata.Interface, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := networkdata.Parse(raw)
	if err == nil && list == nil {
		err = errors.New("network_data names no link")
	}
	return list, err
}

// runGiven brings up what network_data says of the machine's cards, and keeps it up until ctx ends.
func (m *Manager) runGiven(ctx context.Context, cards []netlink.Link, ready func()) error {
	m.resolveGiven()
	for _, l := range cards { // before any is up
		m.without6(l.Attrs().Name, networkdata.Interface{})
	}
	list := m.build(cards)
	if len(list) == 0 {
		return errors.New("network_data: none of its interfaces is there: what was tried is told above")
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	boot := max(0, slices.IndexFunc(list, func(i made) bool {
		return slices.ContainsFunc(i.cards, func(mac string) bool { return strings.EqualFold(mac, m.BootMAC) })
	}))
	for at, i := range list {
		metric := 100 + 10*(at+1)
		if at == boot {
			metric = 100
		}
		wg.Go(func() { m.configure(ctx, i, metric, ready) })
	}
	<-ctx.Done()
	return nil
}

// configure gives an interface what network_data says, and keeps the leases that it is to ask for.
func (m *Manager) configure(ctx context.Context, i made, metric int, ready func()) {
	if !i.DHCP && !i.DHCP6 && !i.SLAAC && len(i.Addresses)+len(i.Routes) == 0 || !m.carrier(ctx, i.name) {
		return
	}
	set := 0
	for _, a := range i.Addresses {
		if err := m.apply(i.name, metric, settings{addr: a}); err != nil {
			m.Log.Error("cannot use an address of network_data", "interface", i.name, "id", i.ID, "address", a, "error", err)
			continue
		}
		set++
		m.Log.Info("network is up, as network_data says", "interface", i.name, "id", i.ID, "address", a, "mtu", i.MTU)
	}
	routes, later := i.routes()
	if err := m.route(i.name, metric, routes); err != nil {
		m.Log.Error("cannot use a route of network_data", "interface", i.name, "id", i.ID, "error", err)
	}
	if set > 0 {
		ready()
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if i.DHCP6 {
		wg.Go(func() { m.keep6(ctx, i.name, metric, ready) })
	} else if i.SLAAC {
		wg.Go(func() { m.watch6(ctx, i.name, ready) })
	}
	if i.DHCP {
		m.keep(ctx, i.name, metric, settings{routes: later, mtu: i.MTU}, ready)
	}
}

// routes are those that are set at once, and those that come with each lease: the kernel takes an interface's IPv4 routes with its last
// IPv4 address.
func (i made) routes() (now, later []route) {
	fixed := slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() })
	for _, r := range i.Routes {
		if r.Via.Is4() && !fixed {
			later = append(later, route{r.To, r.Via})
		} else {
			now = append(now, route{r.To, r.Via})
		}
	}
	return now, later
}

// without6 has the kernel take no IPv6 addresses and routes from routers where network_data does not say so.
func (m *Manager) without6(name string, i networkdata.Interface) {
	six := slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() })
	for file, off := range map[string]bool{"autoconf": !i.SLAAC && !i.DHCP6, "accept_ra": !i.SLAAC && !i.DHCP6 && !six} {
		value := "1"
		if off {
			value = "0"
		}
		path := filepath.Join("/proc/sys/net/ipv6/conf", name, file)
		if err := os.WriteFile(path, []byte(value), 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6 has no such file
			m.Log.Error("cannot tell the kernel which IPv6 addresses network_data wants", "interface", name, "file", path, "error", err)
		}
	}
}

// Whose name servers they are, in the order in which they are asked.
const (
	ofData = iota
	ofDHCP
	ofDHCP6
	sources
)

// names are the parts of the resolver's file.
type names struct {
	mu sync.Mutex
	of [sources]string
}

// maxServers is how many name servers a resolver asks.
const maxServers = 3

// resolveGiven has the resolver ask the name servers of network_data, whichever interface they were given for.
func (m *Manager) resolveGiven() {
	var s settings
	for _, i := range m.Given {
		for _, d := range i.DNS {
			if !slices.Contains(s.dns, d.String()) {
				s.dns = append(s.dns, d.String())
			}
		}
	}
	if len(s.dns) > maxServers {
		m.Log.Warn("network_data names more name servers than are ever asked", "asked", s.dns[:maxServers], "not_asked", s.dns[maxServers:])
	}
	m.resolve(ofData, s)
}

// resolve writes the resolver's file.
func (m *Manager) resolve(source int, s settings) {
	conf := s.resolvConf()
	if conf == "" {
		return
	}
	m.names.mu.Lock()
	defer m.names.mu.Unlock()
	m.names.of[source] = conf
	if err := os.WriteFile(m.ResolvConf, []byte(strings.Join(m.names.of[:], "")), 0o644); err != nil {
		m.Log.Warn("no name resolution", "error", err)
	}
}
