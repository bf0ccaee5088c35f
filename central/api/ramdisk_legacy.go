package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// legacyPayload is the version of a lookup's body that agents of before 1.22 send.
const legacyPayload = "2"

// legacyRamdisk is lookup and heartbeat where agents called before 1.22: as methods of
// vendor interfaces, which need no account either. What guards the newer paths, the
// node's state and the token, guards these.
func (s *Server) legacyRamdisk() Resource {
	return Resource{Routes: []Route{
		{Method: http.MethodPost, Path: "drivers/{driver}/vendor_passthru/lookup", Summary: "Find the node of a machine, as old agents ask for it", Policy: "baremetal:driver:ipa_lookup",
			Handle: s.enabled(s.legacyLookup), Shows: lookedUpAnswer, Success: http.StatusOK},
		{Method: http.MethodPost, Path: "nodes/{node}/vendor_passthru/heartbeat", Summary: "Say that the agent of a node is alive, as old agents do", Policy: "baremetal:node:ipa_heartbeat",
			Handle: s.enabled(s.legacyHeartbeat), Success: http.StatusAccepted},
	}}
}

// legacyLookup finds a node by the inventory that its ramdisk sends.
func (s *Server) legacyLookup(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	if _, err := s.driver(r, unknownDriver); err != nil {
		return Reply{}, err
	}
	body, err := wire.Object(r.writer, r.Request, maxInspection)
	if err != nil {
		return Reply{}, err
	}
	id, macs, err := readLegacyLookup(body)
	if err != nil {
		return Reply{}, err
	}
	n, config, err := s.lookupNode(r, id, macs)
	if err != nil {
		return Reply{}, err
	}
	b := strconv.AppendInt([]byte(`{"heartbeat_timeout":`), int64(config.HeartbeatTimeout), 10)
	return ok(s.appendLookup(append(b, ','), r, n, config))
}

// readLegacyLookup reads whose the ramdisk says that it is.
func readLegacyLookup(body map[string]any) (id string, macs []string, err error) {
	switch version := body["version"].(type) {
	case nil:
		return "", nil, wire.Invalid("Missing parameter version")
	case string:
		if version != legacyPayload {
			return "", nil, wire.Invalid("Unknown lookup payload version: %.40s", version)
		}
	case json.Number:
		if version.String() != legacyPayload {
			return "", nil, wire.Invalid("Unknown lookup payload version: %.40s", version)
		}
	default:
		return "", nil, wire.Invalid("Unknown lookup payload version: %.40s", wire.AppendValue(nil, version))
	}
	inventory, _ := body["inventory"].(map[string]any)
	interfaces, isList := inventory["interfaces"].([]any)
	if !isList {
		return "", nil, wire.Invalid("Malformed network interfaces lookup: the body needs an inventory with a list of interfaces")
	}
	var list []string
	for _, v := range interfaces {
		nic, _ := v.(map[string]any)
		if mac, isText := nic["mac_address"].(string); isText {
			list = append(list, mac)
		}
	}
	switch given := body["node_uuid"].(type) {
	case nil:
	case string:
		valid := false
		if id, valid = wire.UUID(given); !valid {
			return "", nil, wire.Invalid("Expected a UUID but received %.80s.", given)
		}
	default:
		return "", nil, wire.Invalid("Expected a UUID but received %.80s.", wire.AppendValue(nil, given))
	}
	return id, addresses(list), nil
}

// unsaidVersion is the last agent that did not say its version.
const unsaidVersion = "3.0.0"

// legacyHeartbeat is a heartbeat whose callback URL is called agent_url. Such agents send
// more than is known of here, which is passed over.
func (s *Server) legacyHeartbeat(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	var hb agentapi.Heartbeat
	for name, at := range map[string]*string{"agent_url": &hb.CallbackURL, "agent_version": &hb.AgentVersion, "agent_token": &hb.AgentToken,
		"agent_verify_ca": &hb.AgentVerifyCA} {
		text, isText := body[name].(string)
		if body[name] != nil && !isText {
			return Reply{}, wire.Invalid("Expected string for %s: %.80s", name, wire.AppendValue(nil, body[name]))
		}
		*at = text
	}
	if _, given := body["agent_url"].(string); !given {
		return Reply{}, wire.Invalid("Missing mandatory parameter agent_url")
	}
	hb.AgentVersion = cmp.Or(hb.AgentVersion, unsaidVersion)
	_, tokened := body["agent_token"].(string)
	return s.beat(r, r.Param(0), hb, tokened)
}
