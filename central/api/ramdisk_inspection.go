package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
)

// inspectionSince is the version that brought continue_inspection; 1.1 is served too,
// because old ramdisks send no version.
const inspectionSince microversion.Version = 84

// maxInspection bounds the data of an inspection, in bytes.
const maxInspection = 16 << 20

// maxCarried bounds what of it goes on to the rack, and comes back in an event: a message
// of the bus holds no more.
const maxCarried = 900 << 10

// notPluginData are the keys of inspection data that are not kept as plugin data; the logs
// of a ramdisk are for nobody to ask for.
var notPluginData = []string{"inventory", "logs"}

func (s *Server) continueInspection(r *Request) (Reply, error) {
	if err := r.Query.Allow("node_uuid"); err != nil {
		return Reply{}, err
	}
	id, err := r.Query.UUID("node_uuid")
	if err != nil {
		return Reply{}, err
	}
	body, err := wire.Object(r.writer, r.Request, maxInspection)
	if err != nil {
		return Reply{}, err
	}
	inv, macs, err := readInspection(body)
	if err != nil {
		return Reply{}, err
	}
	modern := r.Version >= inspectionSince
	if !modern && (r.Version != microversion.Min || r.Query.Has("node_uuid")) {
		return Reply{}, wire.Errorf(http.StatusNotFound, "API version %s or newer is required", inspectionSince)
	}
	if id == "" && len(macs) == 0 && inv.BMCAddress == "" && inv.BMCV6Address == "" {
		return Reply{}, wire.Invalid("No lookup information provided")
	}
	n, err := s.machine(r.Context(), id, macs)
	if err != nil {
		return Reply{}, err
	}
	r.concerns(n)
	if n.ProvisionState != provision.InspectWait {
		return Reply{}, notFound()
	}
	return s.inspected(r, n, inv, modern)
}

// inspected hands the inventory to the rackd that inspects n.
func (s *Server) inspected(r *Request, n *store.Node, inv agentapi.Inventory, modern bool) (Reply, error) {
	reply := agentapi.LookupReply{}
	var err error
	if modern { // the token comes first: when the data is there the ramdisk may go any moment
		if reply, err = s.token(r, n); err != nil {
			return Reply{}, err
		}
	}
	if err := s.askHolder(r, n, ask.RamdiskInspected, inv.Carried(), nil); err != nil {
		return Reply{}, err
	}
	if !modern {
		return Reply{Status: http.StatusAccepted, Body: append(wire.AppendValue([]byte(`{"uuid":`), n.UUID), '}')}, nil
	}
	return Reply{Status: http.StatusAccepted, Body: s.appendLookup([]byte{'{'}, r, n, reply.Config)}, nil
}

// readInspection reads the inventory and the addresses in it, which tell whose it is.
func readInspection(body map[string]any) (inv agentapi.Inventory, macs []string, err error) {
	asked, given := body["inventory"]
	raw, isObject := asked.(map[string]any)
	nics, listed := raw["interfaces"]
	list, isList := nics.([]any)
	switch {
	case !given:
		return inv, nil, wire.Invalid("Schema error for data: 'inventory' is a required property")
	case !isObject:
		return inv, nil, wire.Invalid("Schema error for data: %s is not of type 'object'", wire.Repr(asked)).Detailed("in inventory")
	case !listed:
		return inv, nil, wire.Invalid("Schema error for data: 'interfaces' is a required property").Detailed("in inventory")
	case !isList:
		return inv, nil, wire.Invalid("Schema error for data: %s is not of type 'array'", wire.Repr(nics)).Detailed("in inventory/interfaces")
	case len(list) == 0:
		return inv, nil, wire.Invalid("Schema error for data: [] should be non-empty").Detailed("in inventory/interfaces")
	}
	plugin := maps.Clone(body)
	for _, beside := range notPluginData {
		delete(plugin, beside)
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return inv, nil, err
	}
	besides, err := json.Marshal(plugin)
	if err != nil {
		return inv, nil, err
	}
	if size := len(text) + len(besides); size > maxCarried {
		return inv, nil, &wire.Error{Status: http.StatusRequestEntityTooLarge, Shape: wire.Bare,
			Text: fmt.Sprintf("The inspection data takes %d bytes without the ramdisk's logs, more than the %d that a rack can be sent.", size, maxCarried)}
	}
	if err := inv.Read(text, besides); err != nil {
		return inv, nil, wire.Invalid("Schema error for data: the inventory cannot be read: %v", err)
	}
	for i, nic := range inv.Interfaces {
		if item, _ := list[i].(map[string]any); item["mac_address"] == nil {
			return inv, nil, wire.Invalid("Schema error for data: interface %d has no 'mac_address'", i+1)
		}
		macs = append(macs, nic.MACAddress)
	}
	return inv, addresses(macs), nil
}
