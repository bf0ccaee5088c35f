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
	body, err := wire.Object(r.writer, r.Request, maxInspection)
	if err != nil {
		return Reply{}, err
	}
	inv, macs, err := readInspection(body)
	if err != nil {
		return Reply{}, err
	}
	id, err := r.Query.UUID("node_uuid")
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
	f := &report{inv, macs, bmcAddresses(inv)}
	n, err := s.inspectedMachine(r.Context(), id, f.macs, f.bmcs)
	if err != nil {
		return Reply{}, err
	}
	if n == nil || n.ProvisionState == provision.Enroll {
		return s.discovered(r, n, f, modern)
	}
	r.concerns(n)
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
	return s.inspectedReply(r, n, reply.Config, modern), nil
}

// inspectedReply says whose data was taken, as the version of the request has it.
func (s *Server) inspectedReply(r *Request, n *store.Node, c agentapi.LookupConfig, modern bool) Reply {
	if !modern {
		return Reply{Status: http.StatusAccepted, Body: append(wire.AppendValue([]byte(`{"uuid":`), n.UUID), '}')}
	}
	return Reply{Status: http.StatusAccepted, Body: s.appendLookup([]byte{'{'}, r, n, c)}
}

// readInspection reads the inventory and the addresses in it, which tell whose it is. What
// nothing here looks at may be anything: it is the hooks' to judge.
func readInspection(body map[string]any) (inv agentapi.Inventory, macs []string, err error) {
	raw, macs, err := checkInventory(body)
	if err != nil {
		return inv, nil, err
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
	return inv, addresses(macs), inv.Read(text, besides)
}

// checkInventory returns the inventory of a body and the MAC addresses in it, when it has
// the least that an inventory must have.
func checkInventory(body map[string]any) (raw map[string]any, macs []string, err error) {
	wrong := func(at string, v any, types string) error {
		return wire.Invalid("Schema error for data: %s is not of type %s", wire.Repr(v), types).Detailed("in %s", at)
	}
	asked, given := body["inventory"]
	raw, isObject := asked.(map[string]any)
	nics, listed := raw["interfaces"]
	list, isList := nics.([]any)
	switch {
	case !given:
		return nil, nil, wire.Invalid("Schema error for data: 'inventory' is a required property")
	case !isObject:
		return nil, nil, wrong("inventory", asked, "'object'")
	case !listed:
		return nil, nil, wire.Invalid("Schema error for data: 'interfaces' is a required property").Detailed("in inventory")
	}
	for _, name := range []string{"bmc_address", "bmc_v6address"} {
		if _, isText := raw[name].(string); raw[name] != nil && !isText {
			return nil, nil, wrong("inventory/"+name, raw[name], "'string', 'null'")
		}
	}
	switch {
	case !isList:
		return nil, nil, wrong("inventory/interfaces", nics, "'array'")
	case len(list) == 0:
		return nil, nil, wire.Invalid("Schema error for data: [] should be non-empty").Detailed("in inventory/interfaces")
	}
	for i, item := range list {
		at := fmt.Sprintf("inventory/interfaces/%d", i)
		nic, isObject := item.(map[string]any)
		address, given := nic["mac_address"]
		mac, isText := address.(string)
		switch {
		case !isObject:
			return nil, nil, wrong(at, item, "'object'")
		case !given:
			return nil, nil, wire.Invalid("Schema error for data: 'mac_address' is a required property").Detailed("in %s", at)
		case !isText:
			return nil, nil, wrong(at+"/mac_address", address, "'string'")
		}
		macs = append(macs, mac)
	}
	return raw, macs, nil
}
