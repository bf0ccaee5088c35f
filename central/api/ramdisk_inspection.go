package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

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
	body, _, err := r.surveyed()
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
	if err := s.askHolder(r, n, ask.RamdiskInspected, ask.Inspected{Inventory: *inv.Carried(), Caller: r.from()}, nil); err != nil {
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

// readInspection reads the addresses in an inventory, which tell whose it is, and takes the inventory and what is
// beside it as they are. What nothing here looks at may be anything: it is the hooks' to judge.
func readInspection(body wire.Raw) (inv agentapi.Inventory, macs []string, err error) {
	raw, macs, err := checkInventory(body)
	if err != nil {
		return inv, nil, err
	}
	size := len(raw)
	for name, value := range body.Members() {
		if !slices.Contains(notPluginData, name) {
			size += len(value)
		}
	}
	if size > mostlySpace*maxCarried {
		return inv, nil, tooMuchCarried()
	}
	text, fits := raw.Compact(nil, maxCarried)
	besides, fit := pluginData(body, maxCarried-len(text))
	if !fits || !fit {
		return inv, nil, tooMuchCarried()
	}
	inv.Sent, inv.PluginData = json.RawMessage(text), besides
	inv.BMCAddress, inv.BMCV6Address = raw.Member("bmc_address").Text(), raw.Member("bmc_v6address").Text()
	return inv, addresses(macs), nil
}

func tooMuchCarried() error {
	return &wire.Error{Status: http.StatusRequestEntityTooLarge, Shape: wire.Bare,
		Text: fmt.Sprintf("The inspection data, without the ramdisk's logs, has more than the %d bytes that a rack can be sent.", maxCarried)}
}

// mostlySpace is how much more JSON may be that was written for people to read.
const mostlySpace = 4

// pluginData is an object of what is beside the inventory, of at most limit bytes.
func pluginData(body wire.Raw, limit int) (json.RawMessage, bool) {
	b, fits := []byte{'{'}, true
	for name, value := range body.Members() { // of several members of one name readers take the last
		if slices.Contains(notPluginData, name) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(wire.AppendValue(b, name), ':')
		if b, fits = value.Compact(b, limit-1); !fits {
			return nil, false
		}
	}
	return append(b, '}'), len(b) < limit
}

// checkInventory returns the inventory of a body and the MAC addresses in it, when it has
// the least that an inventory must have.
func checkInventory(body wire.Raw) (raw wire.Raw, macs []string, err error) {
	wrong := func(at string, v wire.Raw, types string) error {
		return wire.Invalid("Schema error for data: %s is not of type %s", v.Repr(), types).Detailed("in %s", at)
	}
	raw = body.Member("inventory")
	nics := raw.Member("interfaces")
	switch {
	case raw == nil:
		return nil, nil, wire.Invalid("Schema error for data: 'inventory' is a required property")
	case raw.Kind() != '{':
		return nil, nil, wrong("inventory", raw, "'object'")
	case nics == nil:
		return nil, nil, wire.Invalid("Schema error for data: 'interfaces' is a required property").Detailed("in inventory")
	}
	for _, name := range []string{"bmc_address", "bmc_v6address"} {
		if v := raw.Member(name); v != nil && v.Kind() != 'n' && v.Kind() != '"' {
			return nil, nil, wrong("inventory/"+name, v, "'string', 'null'")
		}
	}
	if nics.Kind() != '[' {
		return nil, nil, wrong("inventory/interfaces", nics, "'array'")
	}
	i := 0
	for nic := range nics.Items() {
		at := fmt.Sprintf("inventory/interfaces/%d", i)
		mac := nic.Member("mac_address")
		switch {
		case nic.Kind() != '{':
			return nil, nil, wrong(at, nic, "'object'")
		case mac == nil:
			return nil, nil, wire.Invalid("Schema error for data: 'mac_address' is a required property").Detailed("in %s", at)
		case mac.Kind() != '"':
			return nil, nil, wrong(at+"/mac_address", mac, "'string'")
		case len(macs) < maxSteps: // more are no machine's
			macs = append(macs, mac.Text())
		}
		i++
	}
	if i == 0 {
		return nil, nil, wire.Invalid("Schema error for data: [] should be non-empty").Detailed("in inventory/interfaces")
	}
	return raw, macs, nil
}
