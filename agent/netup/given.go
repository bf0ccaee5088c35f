package netup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

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

// give configures an interface as network_data says. It reports whether the interface is to ask DHCP too.
func (m *Manager) give(ctx context.Context, mac, name string, metric int, ready func()) (dhcp bool) {
	i := slices.IndexFunc(m.Given, func(g networkdata.Interface) bool { return strings.EqualFold(g.MAC, mac) })
	if i < 0 {
		m.Log.Info("network_data does not name this interface, which gets no address", "interface", name, "mac", mac)
		return false
	}
	g := m.Given[i]
	if len(g.Addresses) == 0 {
		return g.DHCP
	}
	if !m.carrier(ctx, name) {
		return false
	}
	for n, s := range given(g) {
		if err := m.apply(name, metric, s); err != nil {
			m.Log.Error("cannot use an address of network_data", "interface", name, "address", s.addr, "error", err)
			continue
		}
		m.Log.Info("network is up, as network_data says", "interface", name, "address", s.addr, "mtu", s.mtu)
		if n == 0 {
			m.resolve(s)
		}
		ready()
	}
	return g.DHCP
}

// names are the name servers of both versions of IP, by whether it is IPv6.
type names struct {
	mu sync.Mutex
	of map[bool]string
}

// resolve writes the resolver's file, whichever interface the name servers were given for.
func (m *Manager) resolve(s settings) {
	if conf := s.resolvConf(); conf != "" {
		m.names.mu.Lock()
		defer m.names.mu.Unlock()
		if m.names.of == nil {
			m.names.of = map[bool]string{}
		}
		m.names.of[s.addr.Addr().Is6()] = conf
		conf = m.names.of[false] + m.names.of[true]
		if err := os.WriteFile(m.ResolvConf, []byte(conf), 0o644); err != nil {
			m.Log.Warn("no name resolution", "error", err)
		}
	}
}

// given are the settings of an interface, one for each address. Name servers are with the first, routes with the first of their kind.
func given(g networkdata.Interface) (list []settings) {
	routed := map[bool]bool{}
	for i, a := range g.Addresses {
		s := settings{addr: a, mtu: g.MTU}
		four := a.Addr().Is4()
		if !routed[four] {
			routed[four] = true
			for _, r := range g.Routes {
				if r.Via.Is4() == four {
					s.routes = append(s.routes, route{r.To, r.Via})
				}
			}
		}
		if i == 0 {
			for _, d := range g.DNS {
				s.dns = append(s.dns, d.String())
			}
		}
		list = append(list, s)
	}
	return list
}
