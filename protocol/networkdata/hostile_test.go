package networkdata

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// many joins as many of what part makes as fit into the megabyte that a request may bring.
func many(part func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(part(i))
	}
	return b.String()
}

func vlanOn(id, on int) string {
	return fmt.Sprintf(`{"id":"%d","type":"vlan","vlan_link":"%d","vlan_id":7,"vlan_mac_address":"52:54:00:00:00:01"}`, id, on)
}

// Who may write a node's fields writes network_data that takes long to read. Rackds read it when a node is validated, and at each
// call of an agent. What no machine has is refused, in less time than a call has.
func TestNetworkDataWithoutMeasure(t *testing.T) {
	const card = `{"id":"0","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"}`
	for name, c := range map[string]struct{ links, networks, services, says string }{
		"VLANs on each other, from the top": {links: many(func(i int) string { return vlanOn(9999-i, 9998-i) }) + "," + card, says: "links"},
		"VLANs on a card":                   {links: card + "," + many(func(i int) string { return strings.Replace(vlanOn(i+1, 0), `:7`, fmt.Sprintf(":%d", i%4094+1), 1) }), says: "links"},
		"cards of a bond": {links: card + `,{"id":"b","type":"bond","bond_mode":"active-backup","ethernet_mac_address":"52:54:00:00:00:01","bond_links":[` +
			many(func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]}`, says: "bond_links"},
		"networks": {links: card, networks: many(func(i int) string {
			return fmt.Sprintf(`{"id":"n","link":"0","type":"ipv4","ip_address":"10.%d.%d.%d/8"}`, i>>16&255, i>>8&255, i&255)
		}), says: "networks"},
		"routes": {links: card, networks: `{"id":"n","link":"0","type":"ipv4_dhcp","routes":[` + many(func(i int) string {
			return fmt.Sprintf(`{"network":"10.%d.%d.%d/32","gateway":"10.0.0.1"}`, i>>16&255, i>>8&255, i&255)
		}) + `]}`, says: "routes"},
		"name servers": {links: card, services: many(func(i int) string {
			return fmt.Sprintf(`{"type":"dns","address":"10.%d.%d.%d"}`, i>>16&255, i>>8&255, i&255)
		}), says: "name servers"},
		"name servers of a network": {links: card, networks: `{"id":"n","link":"0","type":"ipv4_dhcp","services":[` + many(func(i int) string {
			return fmt.Sprintf(`{"type":"dns","address":"10.%d.%d.%d"}`, i>>16&255, i>>8&255, i&255)
		}) + `]}`, says: "name servers"},
	} {
		began := time.Now()
		_, err := Parse([]byte(`{"links":[` + c.links + `],"networks":[` + c.networks + `],"services":[` + c.services + `]}`))
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 1000 || took > 10*time.Second {
			t.Errorf("%s: after %s: %.300v", name, took, err)
		}
	}
}

// The kernel takes seven on each other above a card, and no more.
func TestVLANsOnEachOther(t *testing.T) {
	on := func(bond bool, vlans int) string {
		links := []string{`{"id":"c","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"}`, strings.Replace(vlanOn(1, 0), `"0"`, `"c"`, 1)}
		if bond {
			links = append(links, `{"id":"b","type":"bond","bond_mode":"active-backup","ethernet_mac_address":"52:54:00:00:00:01","bond_links":["c"]}`)
			links[1] = strings.Replace(links[1], `"c"`, `"b"`, 1)
		}
		for i := 2; i <= vlans; i++ {
			links = append([]string{vlanOn(i, i-1)}, links...)
		}
		return `{"links":[` + strings.Join(links, ",") + `],"networks":[],"services":[]}`
	}
	for vlans, want := range map[int]bool{1: true, 6: true, 7: true, 8: false} {
		if _, err := Parse([]byte(on(false, vlans))); (err == nil) != want {
			t.Errorf("%d on a card: %v", vlans, err)
		}
		if _, err := Parse([]byte(on(true, vlans-1))); vlans > 1 && (err == nil) != want {
			t.Errorf("%d on a bond: %v", vlans-1, err)
		}
	}
}

// A zone of an address is any text, and name servers end in a file of lines.
func TestANameServerIsNoText(t *testing.T) {
	for _, address := range []string{`fe80::1%\nnameserver 10.9.9.9`, "fe80::1%eth0", `fe80::1%\noptions/64`} {
		if list, err := Parse([]byte(strings.Replace(example, "8.8.8.8", address, 1))); err == nil {
			t.Errorf("%q is taken: %v", address, list)
		}
	}
}
