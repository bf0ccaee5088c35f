package api

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
)

// Nova's network metadata, which network_data has to be: interfaces, the networks on
// them, and services.
var (
	physicalTypes = []string{"bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif", "phy"}
	// 802.1ad is how Nova's schema writes 802.3ad. Clients write what bonds are made of, too.
	bondModes    = []string{"802.1ad", "802.3ad", "balance-rr", "active-backup", "balance-xor", "broadcast", "balance-tlb", "balance-alb"}
	networkTypes = []string{"ipv4", "ipv4_dhcp", "ipv6", "ipv6_dhcp", "ipv6_slaac"}
)

// networkDataSince is the version that brought network_data.
const networkDataSince = 66

// dataChecker checks an object at path, and remembers the first thing that is wrong.
type dataChecker struct{ err error }

// checkNetworkData checks a node's network_data; empty, there is none.
func checkNetworkData(v any) error {
	data, _ := v.(map[string]any)
	if len(data) == 0 {
		return nil
	}
	return checkNetwork(data)
}

// checkNetwork checks network_data that there is.
func checkNetwork(data map[string]any) error {
	var c dataChecker
	for _, key := range []string{"links", "networks", "services"} {
		if _, given := data[key]; !given {
			c.fail("", "'%s' is a required property", key)
		}
	}
	c.each(data, "links", "", c.link)
	c.each(data, "networks", "", c.network)
	c.each(data, "services", "", func(at string, service map[string]any) { c.service(at, service, "") })
	return c.err
}

func (c *dataChecker) fail(at, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
		if at != "" {
			c.err = fmt.Errorf("%w in %s", c.err, at)
		}
	}
}

// each runs check on the objects of a required list.
func (c *dataChecker) each(of map[string]any, key, at string, check func(at string, item map[string]any)) {
	at = strings.TrimPrefix(at+"/"+key, "/")
	list, isList := of[key].([]any)
	if !isList {
		c.fail(at, "%s is not of type 'array'", wire.Repr(of[key]))
		return
	}
	for i, item := range list {
		object, isObject := item.(map[string]any)
		if !isObject {
			c.fail(fmt.Sprintf("%s/%d", at, i), "%s is not of type 'object'", wire.Repr(item))
			return
		}
		check(fmt.Sprintf("%s/%d", at, i), object)
	}
}

// text returns a field that must be a text, one of words if there are any.
func (c *dataChecker) text(of map[string]any, at, key string, words ...string) string {
	v, given := of[key]
	s, isText := v.(string)
	switch {
	case given && !isText:
		c.fail(at, "%s is not of type 'string'", wire.Repr(v))
	case !given:
		c.fail(at, "'%s' is a required property", key)
	case words != nil && !slices.Contains(words, s):
		c.fail(at, "%s is not one of ['%s']", wire.Repr(s), strings.Join(words, "', '"))
	}
	return s
}

func (c *dataChecker) mac(of map[string]any, at, key string) {
	s := c.text(of, at, key)
	if _, valid := wire.MAC(strings.ReplaceAll(s, "-", ":")); !valid {
		c.fail(at, "%s %.40q is not a MAC address", key, s)
	}
}

func (c *dataChecker) link(at string, link map[string]any) {
	c.text(link, at, "id")
	switch c.text(link, at, "type", append(slices.Clone(physicalTypes), "bond", "vlan")...) {
	case "bond":
		c.mac(link, at, "ethernet_mac_address")
		c.text(link, at, "bond_mode", bondModes...)
		if members, isList := link["bond_links"].([]any); !isList {
			c.fail(at, "'bond_links' is a required property, a list")
		} else if slices.ContainsFunc(members, func(m any) bool { _, isText := m.(string); return !isText }) {
			c.fail(at, "bond_links holds something that is not a text")
		}
	case "vlan":
		c.mac(link, at, "vlan_mac_address")
		c.text(link, at, "vlan_link")
		if _, isText := link["vlan_id"].(string); isText {
			c.fail(at, "vlan_id is not of type 'integer'")
		} else if _, isWhole := whole(link["vlan_id"]); !isWhole {
			c.fail(at, "'vlan_id' is a required property, an integer")
		}
	default:
		c.mac(link, at, "ethernet_mac_address")
	}
	if mtu, given := link["mtu"]; given && mtu != nil {
		if n, isWhole := whole(mtu); !isWhole || n < 1 || n > 65535 {
			c.fail(at, "mtu is not a number between 1 and 65535")
		}
	}
	if _, given := link["vif_id"]; given {
		c.text(link, at, "vif_id")
	}
}

func (c *dataChecker) network(at string, network map[string]any) {
	for _, key := range []string{"id", "link", "network_id"} {
		c.text(network, at, key)
	}
	family := c.text(network, at, "type", networkTypes...)
	if len(family) > 4 {
		family = family[:4]
	}
	for _, key := range []string{"ip_address", "netmask"} {
		if _, given := network[key]; given {
			c.address(network, at, key, family)
		}
	}
	if _, given := network["routes"]; given {
		c.each(network, "routes", at, func(at string, route map[string]any) {
			for _, key := range []string{"network", "netmask", "gateway"} {
				c.address(route, at, key, family)
			}
			if _, given := route["services"]; given {
				c.each(route, "services", at, func(at string, service map[string]any) { c.service(at, service, family) })
			}
		})
	}
}

func (c *dataChecker) service(at string, service map[string]any, family string) {
	c.text(service, at, "type", "dns")
	c.address(service, at, "address", family)
}

// address checks an IP address of the family ("ipv4", "ipv6", or empty for either).
// Host addresses of IPv6 may have the length of a prefix behind them.
func (c *dataChecker) address(of map[string]any, at, key, family string) {
	s := c.text(of, at, key)
	host, length, hasLength := strings.Cut(s, "/")
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil, hasLength && (family == "ipv4" || !ip.Is6() || len(length) > 3),
		family == "ipv4" && !ip.Is4(), family == "ipv6" && !ip.Is6():
		c.fail(at, "%s %.60q is not an IP address of the network's kind", key, s)
	}
}
