package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// The versions between which a local_link_connection may be one of OVN's VTEP
// gateways, and that brought its network_type.
const (
	vtepSince   microversion.Version = 90
	vtepUntil   microversion.Version = 105
	linkNetwork microversion.Version = 64
)

// linkKeys are the keys that a local_link_connection may have.
var linkKeys = []string{"port_id", "switch_id", "hostname", "switch_info", "network_type"}

// vtepKeys are those of a VTEP gateway, which has both and no others.
var vtepKeys = []string{"vtep-logical-switch", "vtep-physical-switch"}

// linkForms are the keys of which a local_link_connection needs one set in full.
var linkForms = [][]string{{"port_id", "switch_id"}, {"port_id", "hostname"}}

// checkLink checks a local_link_connection whose version is not known, and writes its
// switch in lower case.
func checkLink(v any) error {
	link, _ := v.(map[string]any)
	if len(link) == 0 || isVTEP(link) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(link)) {
		if !slices.Contains(linkKeys, key) {
			return fmt.Errorf("additional properties are not allowed (%.40q was unexpected)", key)
		}
		if _, isText := link[key].(string); !isText {
			return fmt.Errorf("%s is not of type 'string'", key)
		}
	}
	switch kind := link["network_type"]; kind {
	case nil, "managed":
	case "unmanaged":
		return nil
	default:
		return fmt.Errorf("network_type %.40q is not one of ['managed', 'unmanaged']", kind)
	}
	if id, given := link["switch_id"].(string); given {
		if !validSwitch(id) {
			return wire.Invalid("Expected a MAC address or OpenFlow datapath ID but received %.80s.", id)
		}
		link["switch_id"] = strings.ToLower(id)
	}
	for _, form := range linkForms {
		if hasAll(link, form) {
			return nil
		}
	}
	return fmt.Errorf("it needs port_id and switch_id, or port_id and hostname, or network_type 'unmanaged'")
}

// checkLinkVersion checks what depends on the version of the request.
func checkLinkVersion(r *Request, p *store.Port) error {
	link := p.LocalLinkConnection
	if _, given := link["network_type"]; given && r.Version < linkNetwork {
		return wire.NotAcceptable("Field local_link_connection/network_type", linkNetwork)
	}
	if isVTEP(link) {
		if r.Version < vtepSince {
			return wire.NotAcceptable("A VTEP gateway as local_link_connection", vtepSince)
		}
		if r.Version >= vtepUntil {
			return wire.Invalid("Schema error for port: local_link_connection: since API version %s it cannot be a VTEP gateway", vtepUntil)
		}
	}
	if p.IsSmartNIC && len(link) > 0 && !hasAll(link, []string{"port_id", "hostname"}) {
		return wire.Invalid("Smart NIC port must have port_id and hostname in local_link_connection")
	}
	return nil
}

func isVTEP(link map[string]any) bool { return len(link) == len(vtepKeys) && hasAll(link, vtepKeys) }

func hasAll(link map[string]any, keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { _, isText := link[key].(string); return !isText })
}

// validSwitch admits what names a switch: a MAC address, or an OpenFlow datapath ID
// (16 hexadecimal digits).
func validSwitch(id string) bool {
	if _, isMAC := wire.MAC(id); isMAC {
		return true
	}
	return len(id) == 16 && strings.Trim(strings.ToLower(id), "0123456789abcdef") == ""
}
