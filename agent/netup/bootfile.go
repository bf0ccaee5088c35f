package netup

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// BootFile is what a DHCP server named as the file to boot, to the interface with that MAC address.
type BootFile struct{ MAC, Name string }

// bootFiles are those that came with leases, by interface, and the addresses that were leased.
type bootFiles struct {
	mu    sync.Mutex
	named map[leasedAt]string
	at    map[leasedAt]netip.Prefix
}

// leasedAt is an interface and a version of IP.
type leasedAt struct {
	name string
	six  bool
}

func (b *bootFiles) leased(name leasedAt, at netip.Prefix, file string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.named == nil {
		b.named, b.at = map[leasedAt]string{}, map[leasedAt]netip.Prefix{}
	}
	b.named[name], b.at[name] = file, at
}

// asBootClient are the options of a client that asks for a boot file.
func (m *Manager) asBootClient() []dhcpv4.Modifier {
	if m.BootClass == "" {
		return nil
	}
	return []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier(m.BootClass)), dhcpv4.WithRequestedOptions(dhcpv4.OptionBootfileName)}
}

// BootFiles returns the boot files that DHCP servers have named and that fit says are ours. A server that gives
// addresses may name none, or a file of others. Then all servers are asked for what they name (RFC 2131, section
// 4.4.3). That takes a few seconds for each interface where none answers. With again they are asked in any case.
// It may return none. Safe for concurrent use.
func (m *Manager) BootFiles(ctx context.Context, again bool, fit func(name string) bool) (list []BootFile) {
	m.boot.mu.Lock()
	ask := map[leasedAt]netip.Prefix{}
	for on, file := range m.boot.named {
		if fit(file) && !again {
			list = append(list, BootFile{macOf(on.name), file})
		} else {
			ask[on] = m.boot.at[on]
		}
	}
	m.boot.mu.Unlock()
	if len(list) > 0 {
		return list
	}
	for on, at := range ask {
		var file string
		var err error
		if on.six {
			file, err = m.inform6(ctx, on.name, fit)
		} else {
			file, err = m.inform(ctx, on.name, at.Addr(), fit)
		}
		if err == nil {
			list = append(list, BootFile{macOf(on.name), file})
		} else {
			m.Log.Warn("no DHCP server names the parameters of this boot", "interface", on.name, "ipv6", on.six, "error", err)
		}
	}
	return list
}

const (
	informFor   = time.Second // for an answer to one packet
	informTries = 3
	informAll   = 10 * time.Second
)

// inform asks all DHCP servers for a boot file and returns the first that fits.
func (m *Manager) inform(ctx context.Context, name string, at netip.Addr, fit func(string) bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, informAll)
	defer cancel()
	c, err := nclient4.New(name, nclient4.WithTimeout(informFor), nclient4.WithRetry(informTries))
	if err != nil {
		return "", err
	}
	defer c.Close()
	request, err := dhcpv4.NewInform(c.InterfaceAddr(), at.AsSlice(), m.asBootClient()...)
	if err != nil {
		return "", err
	}
	said, err := c.SendAndRead(ctx, nclient4.DefaultServers, request, func(p *dhcpv4.DHCPv4) bool {
		return p.MessageType() == dhcpv4.MessageTypeAck && fit(bootFile(p))
	})
	if err != nil {
		return "", err
	}
	return bootFile(said), nil
}

// bootFile is what a reply names, by option or else in its header.
func bootFile(m *dhcpv4.DHCPv4) string {
	if name := m.BootFileNameOption(); name != "" {
		return name
	}
	return m.BootFileName
}

func macOf(name string) string {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return ""
	}
	return i.HardwareAddr.String()
}
