package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/fields"
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

// vtepKeys are the keys of a VTEP gateway, of which a local_link_connection has both or none.
var vtepKeys = []string{"vtep-logical-switch", "vtep-physical-switch"}

// linkKeys are the keys that a local_link_connection may have.
var linkKeys = append([]string{"port_id", "switch_id", "hostname", "switch_info", "network_type"}, vtepKeys...)

// linkForms are the keys of which a local_link_connection needs one set in full.
var linkForms = [][]string{{"port_id", "switch_id"}, {"port_id", "hostname"}, append([]string{"port_id"}, vtepKeys...)}

// checkLink checks a local_link_connection whose version is not known, and writes its
// switch in lower case.
func checkLink(v any) error {
	link, _ := v.(map[string]any)
	if len(link) == 0 {
		return nil
	}
	if cause := unlikeLink(link); cause != "" {
		return fields.Unreadable("Schema error for local_link_connection: %s is not valid under any of the given schemas. Possible root cause: %s", wire.Repr(v), cause)
	}
	if id, given := link["switch_id"].(string); given {
		if !validSwitch(id) {
			return fields.Unreadable("Expected a MAC address or OpenFlow datapath ID but received %.80s.", id)
		}
		link["switch_id"] = strings.ToLower(id)
	}
	return nil
}

// unlikeLink says what a local_link_connection lacks, or has too much; empty: nothing.
func unlikeLink(link map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(link)) {
		if !slices.Contains(linkKeys, key) {
			return fmt.Sprintf("Additional properties are not allowed ('%.40s' was unexpected)", key)
		}
		if _, isText := link[key].(string); !isText {
			return wire.Repr(link[key]) + " is not of type 'string'"
		}
	}
	if hasVTEP(link) && !hasAll(link, vtepKeys) {
		return strings.Join(vtepKeys, " and ") + " depend on each other"
	}
	switch kind, given := link["network_type"]; {
	case kind == "unmanaged":
		return ""
	case given && kind != "managed":
		return wire.Repr(kind) + " is not one of ['managed', 'unmanaged']"
	case slices.ContainsFunc(linkForms, func(form []string) bool { return hasAll(link, form) }):
		return ""
	case link["port_id"] == nil:
		return "'port_id' is a required property"
	}
	return "'switch_id' is a required property"
}

// checkLinkVersion checks what depends on the version of the request.
func checkLinkVersion(r *Request, p *store.Port) error {
	link := p.LocalLinkConnection
	if _, given := link["network_type"]; given && r.Version < linkNetwork {
		return wire.NotAcceptable("Field local_link_connection/network_type", linkNetwork)
	}
	if hasVTEP(link) && !vtepKnown(r.Version) {
		return wire.Errorf(http.StatusNotAcceptable, "Request not acceptable.").Detailed("A VTEP gateway as local_link_connection needs an API version from %s to below %s",
			vtepSince, vtepUntil)
	}
	return nil
}

// checkSmartNIC checks what a new smart NIC's port lacks. As in Ironic, one that is there may
// become a smart NIC's before its link is complete.
func checkSmartNIC(p *store.Port) error {
	if link := p.LocalLinkConnection; p.IsSmartNIC && len(link) > 0 && !hasAll(link, []string{"port_id", "hostname"}) {
		return wire.Invalid("Smart NIC port must have port_id and hostname in local_link_connection")
	}
	return nil
}

// hasVTEP reports whether a local_link_connection names a VTEP gateway.
func hasVTEP(link map[string]any) bool {
	return slices.ContainsFunc(vtepKeys, func(key string) bool { return link[key] != nil })
}

func vtepKnown(v microversion.Version) bool { return v >= vtepSince && v < vtepUntil }

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
