package networkdata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const bondPrefix = "bond_"

// bondFields are those of a link that is a bond. Writers put numbers in quotes, too, as the kernel's own files take them.
type bondFields struct {
	BondMode   string      `json:"bond_mode"`
	BondLinks  []string    `json:"bond_links"`
	MIIMon     json.Number `json:"bond_miimon"`
	UpDelay    json.Number `json:"bond_updelay"`
	DownDelay  json.Number `json:"bond_downdelay"`
	HashPolicy string      `json:"bond_xmit_hash_policy"`
	LACPRate   string      `json:"bond_lacp_rate"`
	Primary    string      `json:"bond_primary"`
	MinLinks   json.Number `json:"bond_min_links"`
}

// bondOptions are the names of those fields.
var bondOptions = []string{"bond_mode", "bond_links", "bond_miimon", "bond_updelay", "bond_downdelay", "bond_xmit_hash_policy", "bond_lacp_rate",
	"bond_primary", "bond_min_links"}

// lacp is the mode in which the switch takes part in the bond (IEEE 802.3ad, now 802.1AX).
const lacp = "802.3ad"

var (
	bondModes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", lacp, "balance-tlb", "balance-alb"}
	// hashModes are those in which a hash chooses the card that a packet leaves by, primaryModes those with a preferred card.
	hashModes    = []string{"balance-xor", lacp, "balance-tlb", "balance-alb"}
	primaryModes = []string{"active-backup", "balance-tlb", "balance-alb"}
	hashPolicies = []string{"layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"}
	lacpRates    = []string{"slow", "fast"}
)

const (
	// usualMIIMon is what a bond has that is told no bond_miimon: the kernel's own default watches no carrier, so nothing would fail over.
	usualMIIMon = 100
	maxMIIMon   = 10000
	maxDelay    = 600000
)

// bond reads what a link is made of.
func (l link) bond() (*Bond, error) {
	b := &Bond{Mode: l.BondMode, Of: l.BondLinks, MIIMon: usualMIIMon, HashPolicy: l.HashPolicy, LACPRate: l.LACPRate, Primary: l.Primary}
	if b.Mode == "802.1ad" { // Ironic's schema and Nova's name it so, and mean LACP
		b.Mode = lacp
	}
	if !slices.Contains(bondModes, b.Mode) {
		return nil, fmt.Errorf("its bond_mode is %.40q: give one of %s", l.BondMode, strings.Join(bondModes, ", "))
	}
	if len(b.Of) == 0 {
		return nil, fmt.Errorf("its bond_links name no link")
	}
	if len(b.Of) > maxLinks {
		return nil, fmt.Errorf("its bond_links name %d links, and %d are the most: %w", len(b.Of), maxLinks, ErrUnsupported)
	}
	for at, id := range b.Of {
		if slices.Contains(b.Of[:at], id) {
			return nil, fmt.Errorf("its bond_links name %.60q twice", id)
		}
	}
	for _, n := range []struct {
		name     string
		given    json.Number
		to       *int
		min, max int
	}{
		{"bond_miimon", l.MIIMon, &b.MIIMon, 1, maxMIIMon},
		{"bond_updelay", l.UpDelay, &b.UpDelay, 0, maxDelay},
		{"bond_downdelay", l.DownDelay, &b.DownDelay, 0, maxDelay},
		{"bond_min_links", l.MinLinks, &b.MinLinks, 0, len(b.Of)},
	} {
		if n.given == "" {
			continue
		}
		v, err := strconv.Atoi(n.given.String())
		if err != nil || v < n.min || v > n.max {
			return nil, fmt.Errorf("its %s is a whole number between %d and %d, not %.40s", n.name, n.min, n.max, n.given)
		}
		*n.to = v
	}
	if b.UpDelay%b.MIIMon != 0 || b.DownDelay%b.MIIMon != 0 {
		return nil, fmt.Errorf("its bond_updelay %d and bond_downdelay %d have to be multiples of its bond_miimon, which is %d", b.UpDelay, b.DownDelay, b.MIIMon)
	}
	for _, w := range []struct {
		name, given  string
		words, modes []string
	}{
		{"bond_xmit_hash_policy", b.HashPolicy, hashPolicies, hashModes},
		{"bond_lacp_rate", b.LACPRate, lacpRates, []string{lacp}},
		{"bond_primary", b.Primary, b.Of, primaryModes},
	} {
		switch {
		case w.given == "":
		case !slices.Contains(w.words, w.given):
			return nil, fmt.Errorf("its %s is %.60q: give one of %.200s", w.name, w.given, strings.Join(w.words, ", "))
		case !slices.Contains(w.modes, b.Mode):
			return nil, fmt.Errorf("its %s means nothing in mode %s: it is for %s", w.name, b.Mode, strings.Join(w.modes, ", "))
		}
	}
	if b.MinLinks > 1 && b.Mode != lacp {
		return nil, fmt.Errorf("its bond_min_links means nothing in mode %s: it is for %s", b.Mode, lacp)
	}
	return b, nil
}

// join checks that bonds are of cards, each of which is in one of them, and have one MTU with those.
func join(bonds, cards []Interface) error {
	bondOf := map[string]string{}
	for at := range bonds {
		b := &bonds[at]
		told := b.MTU != 0
		for _, id := range b.Bond.Of {
			card := slices.IndexFunc(cards, func(c Interface) bool { return c.ID == id })
			if card < 0 {
				return fmt.Errorf("link %.60q: its bond_links name %.60q, which is no link of a single interface", b.ID, id)
			}
			if other, in := bondOf[id]; in {
				return fmt.Errorf("link %.60q: its bond_links name %.60q, which is in the bond %.60q", b.ID, id, other)
			}
			bondOf[id] = b.ID
			mtu := cards[card].MTU
			if mtu == 0 {
				continue
			}
			if b.MTU != 0 && b.MTU != mtu {
				return fmt.Errorf("link %.60q: the bond and its cards have one mtu, and network_data gives them %d and %d (link %.60q)", b.ID, b.MTU, mtu, id)
			}
			if !told {
				b.MTU = mtu
			}
		}
	}
	return nil
}
