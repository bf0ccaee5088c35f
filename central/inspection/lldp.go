package inspection

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"unicode/utf8"
)

// The TLVs of LLDP (IEEE 802.1AB, 8.4) that are read, and the subtypes of identifiers
// that are addresses (8.5.2, 8.5.3).
const (
	tlvChassisID     = 1
	tlvPortID        = 2
	tlvPortText      = 4
	tlvSystemName    = 5
	tlvSystemText    = 6
	tlvCapabilities  = 7
	tlvManagement    = 8
	tlvOrganisation  = 127
	chassisIsMAC     = 4
	chassisIsAddress = 5
	portIsMAC        = 3
	portIsAddress    = 4
)

// tlv is one item of what a switch says of itself.
type tlv struct {
	kind  int
	value []byte
}

// maxLLDP bounds the interfaces, and the items of each, that are read.
const maxLLDP = 64

// lldp returns what was heard on an interface; nothing when there is nothing readable.
func (s *Subject) lldp(n nic) []tlv {
	raw, _ := s.Plugin["lldp_raw"].(map[string]any)
	list, _ := raw[n.name].([]any)
	if len(list) == 0 {
		list, _ = n.fields["lldp"].([]any)
	}
	var out []tlv
	unreadable := 0
	defer func() {
		if unreadable > 0 {
			s.Log.Warn("unreadable LLDP items left out", "node", s.Node.UUID, "interface", n.name, "items", unreadable)
		}
	}()
	for _, item := range list[:min(len(list), maxLLDP)] {
		pair, _ := item.([]any)
		if len(pair) != 2 {
			unreadable++
			continue
		}
		kind, isNumber := number(pair[0])
		text, _ := pair[1].(string)
		value, err := hex.DecodeString(text)
		if !isNumber || err != nil {
			unreadable++
			continue
		}
		out = append(out, tlv{int(kind), value})
	}
	return out
}

// identifier reads a chassis or port id: a subtype and a value.
func (t tlv) identifier() string {
	if len(t.value) < 2 {
		return ""
	}
	subtype, value := t.value[0], t.value[1:]
	switch {
	case t.isMAC():
		return net.HardwareAddr(value).String()
	case t.kind == tlvChassisID && subtype == chassisIsAddress, t.kind == tlvPortID && subtype == portIsAddress:
		return address(value)
	}
	return printable(value)
}

func (t tlv) isMAC() bool {
	return len(t.value) == 7 && (t.kind == tlvChassisID && t.value[0] == chassisIsMAC || t.kind == tlvPortID && t.value[0] == portIsMAC)
}

// address reads a network address behind its family (1: IPv4, 2: IPv6).
func address(b []byte) string {
	if len(b) == 5 && b[0] == 1 || len(b) == 17 && b[0] == 2 {
		a, _ := netip.AddrFromSlice(b[1:])
		return a.String()
	}
	return ""
}

func printable(b []byte) string {
	if !utf8.Valid(b) {
		return ""
	}
	return string(b)
}

// parseLLDP makes what switches said readable, in the plugin data.
func parseLLDP(_ *Processor, s *Subject) error {
	parsed, _ := s.Plugin["parsed_lldp"].(map[string]any)
	parsed = maps.Clone(parsed)
	if parsed == nil {
		parsed = map[string]any{}
	}
	nics := s.nics()
	for _, n := range nics[:min(len(nics), maxLLDP)] {
		if said := readable(s.lldp(n)); len(said) > 0 {
			parsed[n.name] = said
		}
	}
	if len(parsed) > 0 {
		s.Plugin["parsed_lldp"] = parsed
	}
	return nil
}

func readable(items []tlv) map[string]any {
	out := map[string]any{}
	set := func(name, text string) {
		if text != "" {
			out[name] = text
		}
	}
	var managed []any
	for _, t := range items {
		switch t.kind {
		case tlvChassisID:
			set("switch_chassis_id", t.identifier())
		case tlvPortID:
			set("switch_port_id", t.identifier())
		case tlvPortText:
			set("switch_port_description", printable(t.value))
		case tlvSystemName:
			set("switch_system_name", printable(t.value))
		case tlvSystemText:
			set("switch_system_description", printable(t.value))
		case tlvCapabilities:
			if len(t.value) == 4 {
				out["switch_capabilities_support"] = capabilities(t.value[:2])
				out["switch_capabilities_enabled"] = capabilities(t.value[2:])
			}
		case tlvManagement:
			if len(t.value) > 1 && int(t.value[0]) < len(t.value) {
				if a := address(t.value[1 : 1+int(t.value[0])]); a != "" {
					managed = append(managed, a)
				}
			}
		case tlvOrganisation:
			organisational(t.value, out)
		}
	}
	if managed != nil {
		out["switch_mgmt_addresses"] = managed
	}
	return out
}

// capabilityBits are what a system may be, from the second-lowest bit on (IEEE 802.1AB, table 8-4).
var capabilityBits = []string{"Repeater", "Bridge", "WLAN", "Router", "Telephone", "DOCSIS cable device", "Station only", "C-Vlan", "S-Vlan", "TPMR"}

func capabilities(b []byte) []any {
	bits, names := binary.BigEndian.Uint16(b), []any{}
	for i, name := range capabilityBits {
		if bits&(2<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// organisational reads the items of IEEE 802.1 (00-80-C2; 802.1Q, annex D) and 802.3 (00-12-0F;
// 802.3, clause 79) that say the port's VLANs, its part in an aggregation, its largest frame and
// whether it negotiates.
func organisational(b []byte, out map[string]any) {
	if len(b) < 5 {
		return
	}
	kind, b := fmt.Sprintf("%x", b[:4]), b[4:]
	number := func(at int) int64 { return int64(binary.BigEndian.Uint16(b[at:])) }
	add := func(name string, v any) {
		list, _ := out[name].([]any)
		out[name] = append(list, v)
	}
	switch {
	case kind == "0080c201" && len(b) >= 2:
		out["switch_port_untagged_vlan_id"] = number(0)
	case kind == "0080c202" && len(b) == 3:
		out["switch_port_protocol_vlan_support"], out["switch_port_protocol_vlan_enabled"] = b[0]&2 != 0, b[0]&4 != 0
		add("switch_port_protocol_vlan_ids", number(1))
	case kind == "0080c203" && len(b) >= 3 && len(b) >= 3+int(b[2]):
		add("switch_port_vlans", map[string]any{"id": number(0), "name": printable(b[3 : 3+int(b[2])])})
	case kind == "0080c204" && len(b) >= 1+int(b[0]):
		add("switch_protocol_identities", hex.EncodeToString(b[1:1+int(b[0])]))
	case kind == "0080c206" && len(b) >= 2:
		out["switch_port_management_vlan_id"] = number(0)
	case (kind == "0080c207" || kind == "00120f03") && len(b) == 5:
		out["switch_port_link_aggregation_support"], out["switch_port_link_aggregation_enabled"] = b[0]&1 != 0, b[0]&2 != 0
		out["switch_port_link_aggregation_id"] = int64(binary.BigEndian.Uint32(b[1:]))
	case kind == "00120f01" && len(b) == 5:
		out["switch_port_autonegotiation_support"], out["switch_port_autonegotiation_enabled"] = b[0]&1 != 0, b[0]&2 != 0
	case kind == "00120f04" && len(b) >= 2:
		out["switch_port_mtu"] = number(0)
	}
}

// localLink fills in switch and port of the ports' local link, where they are not known:
// a switch's id is its MAC address only, what is told of it besides is its name.
func localLink(_ *Processor, s *Subject) error {
	for _, n := range s.nics() {
		port := s.portOf(n)
		if port == nil {
			continue
		}
		link := maps.Clone(port.LocalLinkConnection)
		if link == nil {
			link = map[string]any{}
		}
		for _, t := range s.lldp(n) {
			name, value := "", t.identifier()
			switch {
			case t.kind == tlvPortID:
				name = "port_id"
			case t.kind == tlvChassisID && t.isMAC():
				name = "switch_id"
			case t.kind == tlvSystemName:
				name, value = "switch_info", printable(t.value)
			}
			if name != "" && value != "" && link[name] == nil {
				link[name] = value
			}
		}
		if len(link) != len(port.LocalLinkConnection) {
			port.LocalLinkConnection = link
			s.portChanged(port)
		}
	}
	return nil
}
