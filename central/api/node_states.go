package api

import (
	"net/http"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/dispatch"
)

func (s *Server) nodeStates() Resource {
	return Resource{Routes: []Route{
		{Method: http.MethodGet, Path: "nodes/{node}/states", Summary: "Show the states of a node", Policy: "baremetal:node:get_states", Handle: s.showStates, Shows: statesAnswer},
		{Method: http.MethodPut, Path: "nodes/{node}/states/provision", Summary: "Ask for a change of the provision state of a node", Policy: setProvisionState, Handle: s.setProvision, Takes: provisionBody, Success: http.StatusAccepted},
		{Method: http.MethodPut, Path: "nodes/{node}/states/power", Summary: "Switch a machine on or off, or restart it", Policy: "baremetal:node:set_power_state", Handle: s.setPower, Takes: powerBody, Success: http.StatusAccepted},
	}}
}

// stateFields are the fields of a node that its states show, in their order.
var stateFields = []string{"console_enabled", "last_error", "power_state", "provision_state", "target_power_state", "target_provision_state",
	"provision_updated_at", "raid_config", "target_raid_config", "boot_mode", "secure_boot"}

func (s *Server) showStates(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	var sel fields.Selection
	var known []string
	for _, name := range stateFields {
		if f, _ := nodeTable.Lookup(name); f.Since <= r.Version {
			known = append(known, name)
		}
	}
	if sel, err = nodeTable.Choose(r.Version, known); err != nil {
		return Reply{}, err
	}
	b := nodeTable.Append([]byte{'{'}, sel, s.view(r, n, sel))
	return ok(append(b, '}'))
}

// caller is who a request is recorded for.
func caller(r *Request) dispatch.Caller {
	return dispatch.Caller{RequestID: r.ID, User: r.Caller.Name(), Project: r.Caller.Project}
}

// statesLocation is where a client watches what it asked for.
func statesLocation(r *Request) string {
	return r.Base + "/v1/nodes/" + r.Param(0) + "/states"
}
