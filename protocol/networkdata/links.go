package networkdata

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
)

// link is one of network_data's links.
type link struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	MAC  string `json:"ethernet_mac_address"`
	MTU  *int   `json:"mtu"`

	bondFields
	vlanFields
	// options are the names of fields that begin with bond_ or vlan_.
	options []string
}

type linkFields link // without methods

// UnmarshalJSON implements json.Unmarshaler.
func (l *link) UnmarshalJSON(raw []byte) error {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, (*linkFields)(l)); err != nil {
		return err
	}
	for name, value := range all {
		if (strings.HasPrefix(name, bondPrefix) || strings.HasPrefix(name, vlanPrefix)) && string(value) != "null" {
			l.options = append(l.options, name)
		}
	}
	slices.Sort(l.options)
	return nil
}

// Bounds of an MTU: what every host must take (RFC 791), what IPv6 needs (RFC 8200), and what a link's field holds.
const (
	minMTU  = 576
	minMTU6 = 1280
	maxMTU  = 65535
	// usualMTU is that of Ethernet, which a link has that is told none.
	usualMTU = 1500
)

// plain are the types of links that are one interface of the machine.
var plain = []string{"phy", "ovs", "vif", "tap", "bridge", "vhostuser", "hw_veb", "hyperv", "dvs"}

// interfaces are what the links make: cards first, then bonds, then VLANs, each after the one it stands on.
func interfaces(links []link) ([]Interface, error) {
	var cards, bonds, vlans []Interface
	ids := map[string]bool{}
	for _, l := range links {
		if ids[l.ID] {
			return nil, fmt.Errorf("link %.60q: another link has its id", l.ID)
		}
		ids[l.ID] = true
		i, err := l.read()
		if err != nil {
			return nil, fmt.Errorf("link %.60q: %w", l.ID, err)
		}
		switch {
		case i.Bond != nil:
			bonds = append(bonds, i)
		case i.VLAN != nil:
			vlans = append(vlans, i)
		default:
			cards = append(cards, i)
		}
	}
	list := slices.Concat(cards, bonds)
	if err := join(list[len(cards):], cards); err != nil {
		return nil, err
	}
	list, err := stack(list, vlans)
	if err != nil {
		return nil, err
	}
	return list, distinct(list)
}

// read reads one link by itself.
func (l link) read() (i Interface, err error) {
	i.ID = l.ID
	if l.MTU != nil {
		if i.MTU = *l.MTU; i.MTU < minMTU || i.MTU > maxMTU {
			return i, fmt.Errorf("an mtu is between %d and %d, not %d", minMTU, maxMTU, i.MTU)
		}
	}
	known, field, mac := []string(nil), "ethernet_mac_address", l.MAC
	switch {
	case l.Type == "bond":
		known = bondOptions
		i.Bond, err = l.bond()
	case l.Type == "vlan":
		known, field, mac = vlanOptions, "vlan_mac_address", l.VLANMAC
		i.VLAN, err = l.vlan()
	case !slices.Contains(plain, l.Type):
		return i, fmt.Errorf("its type is %.20q: %w: give bond, vlan or one of %s", l.Type, ErrUnsupported, strings.Join(plain, ", "))
	}
	for _, name := range l.options {
		if !slices.Contains(known, name) {
			return i, fmt.Errorf("it is of type %s and has %.60q: %w: leave that out", l.Type, name, ErrUnsupported)
		}
	}
	if err != nil {
		return i, err
	}
	address, err := net.ParseMAC(mac)
	if err != nil || len(address) != 6 || address[0]&1 != 0 || slices.Max(address) == 0 {
		return i, fmt.Errorf("its %s %.40q is no MAC address of an interface", field, mac)
	}
	i.MAC = address.String()
	return i, nil
}

// distinct checks that two interfaces share a MAC address only where a network sees one of them: a bond and its cards, and the VLANs on one
// interface.
func distinct(list []Interface) error {
	bottom, held := map[string]string{}, map[string]Interface{} // what each stands on in the end, and the first with an address
	bondOf := map[string]string{}
	for _, i := range list {
		bottom[i.ID] = i.ID
		if i.Bond != nil {
			for _, card := range i.Bond.Of {
				bondOf[card] = i.ID
			}
		}
		if i.VLAN != nil {
			bottom[i.ID] = bottom[i.VLAN.On]
		}
	}
	root := func(id string) string { // a card of a bond stands for the bond
		if bond, member := bondOf[id]; member {
			return bond
		}
		return bottom[id]
	}
	for _, i := range list {
		first, has := held[i.MAC]
		cards := i.Bond == nil && i.VLAN == nil && first.Bond == nil && first.VLAN == nil
		if has && (cards || root(first.ID) != root(i.ID)) {
			return fmt.Errorf("link %.60q: link %.60q has its MAC address %s, too", i.ID, first.ID, i.MAC)
		}
		if !has {
			held[i.MAC] = i
		}
	}
	return nil
}
