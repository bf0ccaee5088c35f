package networkdata

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

const vlanPrefix = "vlan_"

// vlanFields are those of a link that is a VLAN.
type vlanFields struct {
	VLANLink string `json:"vlan_link"`
	VLANID   *int   `json:"vlan_id"`
	VLANMAC  string `json:"vlan_mac_address"`
}

// vlanOptions are the names of those fields.
var vlanOptions = []string{"vlan_link", "vlan_id", "vlan_mac_address"}

// Tags of IEEE 802.1Q: the first and the last number are reserved.
const (
	minTag = 1
	maxTag = 4094
)

// vlan reads what a link stands on.
func (l link) vlan() (*VLAN, error) {
	if l.VLANID == nil {
		return nil, errors.New("it has no vlan_id")
	}
	if *l.VLANID < minTag || *l.VLANID > maxTag {
		return nil, fmt.Errorf("a vlan_id is between %d and %d, not %d", minTag, maxTag, *l.VLANID)
	}
	return &VLAN{On: l.VLANLink, Tag: *l.VLANID}, nil
}

// stack adds VLANs to the interfaces that they stand on, each after that one.
func stack(list, vlans []Interface) ([]Interface, error) {
	inBond := map[string]string{}
	for _, i := range list {
		if i.Bond != nil {
			for _, card := range i.Bond.Of {
				inBond[card] = i.ID
			}
		}
	}
	for _, v := range vlans {
		if !slices.ContainsFunc(slices.Concat(list, vlans), func(i Interface) bool { return i.ID == v.VLAN.On }) {
			return nil, fmt.Errorf("link %.60q: its vlan_link %.60q is none", v.ID, v.VLAN.On)
		}
		if bond, in := inBond[v.VLAN.On]; in {
			return nil, fmt.Errorf("link %.60q: its vlan_link %.60q is in the bond %.60q: a VLAN stands on the bond", v.ID, v.VLAN.On, bond)
		}
	}
	tags := map[VLAN]string{}
	height := map[string]int{} // of what stands on each other
	for _, i := range list {
		if i.Bond != nil {
			height[i.ID] = 1
		}
	}
	for len(vlans) > 0 {
		var later []Interface
		for _, v := range vlans {
			at := slices.IndexFunc(list, func(i Interface) bool { return i.ID == v.VLAN.On })
			if at < 0 {
				later = append(later, v)
				continue
			}
			if other, twice := tags[*v.VLAN]; twice {
				return nil, fmt.Errorf("link %.60q: link %.60q is the VLAN %d on %.60q, too", v.ID, other, v.VLAN.Tag, v.VLAN.On)
			}
			tags[*v.VLAN] = v.ID
			if height[v.ID] = height[v.VLAN.On] + 1; height[v.ID] > maxStacked {
				return nil, fmt.Errorf("link %.60q: its vlan_link %.60q stands on %d bonds and VLANs already, and the kernel takes no more: %w", v.ID, v.VLAN.On, maxStacked, ErrUnsupported)
			}
			if below := cmp.Or(list[at].MTU, usualMTU); v.MTU > below {
				return nil, fmt.Errorf("link %.60q: its mtu %d is more than its vlan_link %.60q takes, which is %d: give that link the mtu too", v.ID, v.MTU, v.VLAN.On, below)
			}
			if v.MTU == 0 {
				v.MTU = list[at].MTU
			}
			list = append(list, v)
		}
		if len(later) == len(vlans) {
			return nil, fmt.Errorf("link %.60q: its vlan_link %.60q stands on it in turn", later[0].ID, later[0].VLAN.On)
		}
		vlans = later
	}
	return list, nil
}
