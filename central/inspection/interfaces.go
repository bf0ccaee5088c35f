package inspection

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/work"
)

// nic is a network interface that was found, with a usable name and MAC address.
type nic struct {
	name, mac string       // the MAC in lower case
	ips       []netip.Addr // IPv4 first
	pxe       bool
	fields    map[string]any // as found, with pxe_enabled
}

var macPattern = regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`)

// nics returns the usable interfaces, in the order in which they were found.
func (s *Subject) nics() []nic {
	list, _ := s.Inventory["interfaces"].([]any)
	pxe := s.pxeMAC()
	var out []nic
	for _, item := range list {
		found, _ := item.(map[string]any)
		name, _ := found["name"].(string)
		mac, _ := found["mac_address"].(string)
		if mac = strings.ToLower(mac); name == "" || !macPattern.MatchString(mac) {
			s.Log.Debug("interface without a name or a MAC address left out", "node", s.Node.UUID, "name", name, "mac", mac)
			continue
		}
		n := nic{name: name, mac: mac, pxe: mac == pxe}
		n.fields, _ = clone(found).(map[string]any)
		if text, isText := found["ipv6_address"].(string); isText {
			n.fields["ipv6_address"], _, _ = strings.Cut(text, "%") // the scope of a link-local address
		} else {
			n.fields["ipv6_address"] = found["ipv6_address"]
		}
		n.fields["pxe_enabled"] = n.pxe
		for _, key := range []string{"ipv4_address", "ipv6_address"} {
			text, _ := n.fields[key].(string)
			if ip, err := netip.ParseAddr(text); err == nil {
				n.ips = append(n.ips, ip)
			}
		}
		out = append(out, n)
	}
	return out
}

// pxeMAC is the MAC address of the interface that the ramdisk booted from, empty when
// it is not known.
func (s *Subject) pxeMAC() string {
	boot, _ := s.Inventory["boot"].(map[string]any)
	mac, _ := boot["pxe_interface"].(string)
	if kind, rest, dashed := strings.Cut(mac, "-"); dashed && len(kind) == 2 { // as pxelinux writes it
		mac = strings.ReplaceAll(rest, "-", ":")
	}
	return strings.ToLower(mac)
}

// wanted are the interfaces that get a port.
func (p *Processor) wanted(s *Subject, all []nic) []nic {
	pxe := s.pxeMAC()
	return slices.DeleteFunc(slices.Clone(all), func(n nic) bool {
		switch {
		case n.name == "lo" || slices.ContainsFunc(n.ips, netip.Addr.IsLoopback):
			return true
		case p.set.AddPorts == "pxe":
			return pxe != "" && !n.pxe
		case p.set.AddPorts == "active":
			return len(n.ips) == 0
		}
		return false
	})
}

// validateInterfaces fails an inspection that found no interface to boot from, and shows
// the others what it found.
func validateInterfaces(p *Processor, s *Subject) error {
	all := s.nics()
	if len(all) == 0 && s.Source == work.MadeUp {
		return nil // a machine that is made up has the interfaces that its ports give it
	}
	if len(all) == 0 && s.outOfBand() {
		// The BMC does not tell the addresses of its machine's interfaces, and the rest is worth keeping. Ports come from an
		// operator or an agent.
		s.Log.Warn("the BMC tells of no network interface with a MAC address: the node gets no ports", "node", s.Node.UUID)
		return nil
	}
	if len(all) == 0 {
		return failed("Inventory of node %s is not valid: no valid network interfaces", s.Node.UUID)
	}
	valid := p.wanted(s, all)
	if len(valid) == 0 {
		return failed("Inventory of node %s is not valid: no network interfaces match the configuration (add ports: %q)", s.Node.UUID, p.set.AddPorts)
	}
	byName := func(list []nic) map[string]any {
		m := map[string]any{}
		for _, n := range list {
			m[n.name] = n.fields
		}
		return m
	}
	macs := make([]any, len(valid))
	for i, n := range valid {
		macs[i] = n.fields["mac_address"]
	}
	s.Plugin["all_interfaces"], s.Plugin["valid_interfaces"], s.Plugin["macs"] = byName(all), byName(valid), macs
	return nil
}

// ports adds a port for each interface that is to have one, and removes those that are
// not to be kept. Where the ramdisk does not say what it booted from, no port's
// pxe_enabled is touched: a node whose ports all say no could never boot again.
func ports(p *Processor, s *Subject) error {
	all, known := s.nics(), s.pxeMAC() != ""
	if len(all) == 0 && s.outOfBand() {
		return nil // nothing is known of ports
	}
	valid := p.wanted(s, all)
	if p.set.AddPorts != "disabled" {
		for _, n := range valid {
			s.addPort(n, n.pxe || !known)
		}
	}
	keep := map[string]bool{}
	for _, n := range map[string][]nic{"present": all, "added": valid}[p.set.KeepPorts] {
		keep[n.mac] = true
	}
	for _, port := range slices.Clone(s.Ports) {
		if p.set.KeepPorts != "all" && !keep[port.Address] {
			s.removePort(port)
			continue
		}
		at := slices.IndexFunc(all, func(n nic) bool { return n.mac == port.Address })
		if pxe := at >= 0 && all[at].pxe; known && port.PXEEnabled != pxe {
			port.PXEEnabled = pxe
			s.portChanged(port)
		}
		if at < 0 {
			continue
		}
		if id := all[at].clientID(); id != "" && port.Extra["client-id"] != id {
			port.Extra = maps.Clone(port.Extra)
			if port.Extra == nil {
				port.Extra = map[string]any{}
			}
			port.Extra["client-id"] = id
			s.portChanged(port)
		}
	}
	return nil
}

// clientID is what the interface shows DHCP servers in place of its MAC address, as InfiniBand's
// do; empty where that is not known.
func (n *nic) clientID() string {
	id, _ := n.fields["client_id"].(string)
	return id
}

func (s *Subject) addPort(n nic, pxe bool) {
	if slices.ContainsFunc(s.Ports, func(p *store.Port) bool { return p.Address == n.mac }) {
		return
	}
	port := &store.Port{UUID: uuid.NewString(), Node: s.Node.UUID, Address: n.mac, PXEEnabled: pxe, AvailableForDynamicPortgroup: true, Extra: map[string]any{}}
	if id := n.clientID(); id != "" {
		port.Extra["client-id"] = id
	}
	s.Ports, s.Added = append(s.Ports, port), append(s.Added, port)
}

func (s *Subject) removePort(port *store.Port) {
	same := func(p *store.Port) bool { return p == port }
	s.Ports = slices.DeleteFunc(s.Ports, same)
	if i := slices.IndexFunc(s.Added, same); i >= 0 {
		s.Added = slices.Delete(s.Added, i, i+1)
		return
	}
	delete(s.Changed, port.UUID)
	s.Removed = append(s.Removed, port)
}

// portOf returns the port of an interface, nil for none.
func (s *Subject) portOf(n nic) *store.Port {
	i := slices.IndexFunc(s.Ports, func(p *store.Port) bool { return p.Address == n.mac })
	if i < 0 {
		return nil
	}
	return s.Ports[i]
}

// physicalNetwork names the physical network of ports, by the networks that the addresses of
// their interfaces are from. A port whose addresses are from none keeps the name that it has.
func physicalNetwork(p *Processor, s *Subject) error {
	for _, n := range s.nics() {
		port := s.portOf(n)
		if port == nil {
			continue
		}
		name, err := p.networkOf(n.ips)
		if err != nil {
			return err
		}
		if name != "" && name != port.PhysicalNetwork {
			port.PhysicalNetwork = name
			s.portChanged(port)
		}
	}
	return nil
}

// networkOf names the smallest network that has the first of the addresses that any has.
func (p *Processor) networkOf(ips []netip.Addr) (best string, err error) {
	for _, ip := range ips {
		bits := -1
		for cidr, name := range p.set.PhysicalNetworks {
			network, err := netip.ParsePrefix(cidr)
			if err != nil {
				return "", fmt.Errorf("network %q of the configuration: %w", cidr, err)
			}
			if network.Contains(ip) && network.Bits() > bits {
				bits, best = network.Bits(), name
			}
		}
		if bits >= 0 {
			break
		}
	}
	return best, nil
}
