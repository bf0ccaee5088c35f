package api

import (
	"cmp"
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
			Handle: s.enabled(s.legacyLookup), Body: maxInspection, Shows: lookedUpAnswer, Success: http.StatusOK},
		{Method: http.MethodPost, Path: "nodes/{node}/vendor_passthru/heartbeat", Summary: "Say that the agent of a node is alive, as old agents do", Policy: "baremetal:node:ipa_heartbeat",
			Handle: s.enabled(s.legacyHeartbeat), Body: maxHeartbeat, Known: s.knownBeat, Success: http.StatusAccepted},
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
	body, _, err := r.surveyed()
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
func readLegacyLookup(body wire.Raw) (id string, macs []string, err error) {
	switch version := body.Member("version"); {
	case version == nil || version.Kind() == 'n':
		return "", nil, wire.Invalid("Missing parameter version")
	case version.Text() != legacyPayload && string(version) != legacyPayload:
		return "", nil, wire.Invalid("Unknown lookup payload version: %.40s", cmp.Or(version.Text(), string(version)))
	}
	interfaces := body.Member("inventory").Member("interfaces")
	if interfaces.Kind() != '[' {
		return "", nil, wire.Invalid("Malformed network interfaces lookup: the body needs an inventory with a list of interfaces")
	}
	var list []string
	for nic := range interfaces.Items() {
		if mac := nic.Member("mac_address"); mac.Kind() == '"' && len(list) < maxSteps {
			list = append(list, mac.Text())
		}
	}
	switch given := body.Member("node_uuid"); given.Kind() {
	case 0, 'n':
	case '"':
		valid := false
		if id, valid = wire.UUID(given.Text()); !valid {
			return "", nil, wire.Invalid("Expected a UUID but received %.80s.", given.Text())
		}
	default:
		return "", nil, wire.Invalid("Expected a UUID but received %.80s.", given)
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
			return Reply{}, wire.Invalid("Expected string for %s: %.80s", name, wire.ReprOf(name, body[name]))
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
