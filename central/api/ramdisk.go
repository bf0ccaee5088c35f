package api

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
)

// tokenSince is the version from which a lookup gives the agent its token.
const tokenSince microversion.Version = 62

// ramdisk is what the agents in ramdisks call, when they are told of central instead of
// their rack. They have no account; what a lookup may tell, and the token, guard it. The
// rackd that runs a node's work hears all of it and answers.
func (s *Server) ramdisk() []Resource {
	return []Resource{
		s.legacyRamdisk(),
		{Name: "lookup", Since: 22, Routes: []Route{{Method: http.MethodGet, Path: "lookup", Summary: "Find the node of a machine that runs an agent", Policy: "baremetal:driver:ipa_lookup", Handle: s.enabled(s.lookup), Shows: lookedUpAnswer}}},
		{Name: "heartbeat", Since: 22, Routes: []Route{
			{Method: http.MethodPost, Path: "heartbeat/{node}", Summary: "Say that the agent of a node is alive", Policy: "baremetal:node:ipa_heartbeat", Handle: s.enabled(s.heartbeat), Body: maxHeartbeat, Known: s.knownBeat, Takes: heartbeatBody, Success: http.StatusAccepted},
			{Method: http.MethodPost, Path: "heartbeat", Summary: "Say that the agent of a node is alive; the body names the node", Policy: "baremetal:node:ipa_heartbeat", Handle: s.enabled(s.heartbeat), Body: maxHeartbeat, Known: s.knownBeat, Takes: namedBeatBody, Success: http.StatusAccepted},
		}},
		// Inspection data of old ramdisks comes without a version.
		{Name: "continue_inspection", Since: inspectionSince},
		{Routes: []Route{{Method: http.MethodPost, Path: "continue_inspection", Summary: "Take what an agent has found of its machine", Policy: "baremetal:driver:ipa_continue_inspection",
			Handle: s.enabled(s.continueInspection), Body: maxInspection, Success: http.StatusAccepted}}},
	}
}

// enabled refuses what a replica is configured not to serve.
func (s *Server) enabled(h Handler) Handler {
	if !s.NoRamdiskEndpoints {
		return h
	}
	return func(*Request) (Reply, error) {
		return Reply{}, wire.Errorf(http.StatusForbidden, "The endpoints for ramdisks are disabled on this API service.")
	}
}

// notFound is the one answer about a node that is not there and about one whose state
// is nobody's business.
func notFound() error { return wire.Errorf(http.StatusNotFound, "Resource could not be found.") }

// addresses reads MAC addresses; those that are none are left out.
func addresses(list []string) (macs []string) {
	for _, a := range list {
		if mac, err := net.ParseMAC(strings.TrimSpace(a)); err == nil && len(mac) == 6 && len(macs) < maxSteps {
			macs = append(macs, mac.String())
		}
	}
	return macs
}

func (s *Server) lookup(r *Request) (Reply, error) {
	if err := r.Query.Allow("addresses", "node_uuid", agentapi.QuerySystemUUID, agentapi.QuerySystemSerial); err != nil {
		return Reply{}, err
	}
	id, err := r.Query.UUID("node_uuid")
	if err != nil {
		return Reply{}, err
	}
	macs := addresses(strings.Split(r.Query["addresses"], ","))
	if id == "" && len(macs) == 0 {
		return Reply{}, wire.Invalid("At least one of 'addresses' and 'node_uuid' parameters is required")
	}
	n, config, err := s.lookupNode(r, id, macs)
	if err != nil {
		return Reply{}, err
	}
	return ok(s.appendLookup([]byte{'{'}, r, n, config))
}

// lookupNode finds the node that a ramdisk asks for, and what its agent is told.
func (s *Server) lookupNode(r *Request, id string, macs []string) (*store.Node, agentapi.LookupConfig, error) {
	var none agentapi.LookupConfig
	n, err := s.machine(r.Context(), id, macs)
	if err != nil {
		return nil, none, err
	}
	r.concerns(n)
	if !s.LookupAnyState && !n.ProvisionState.In(provision.LookupAllowed) {
		return nil, none, notFound()
	}
	reply, err := s.token(r, n)
	if err != nil {
		return nil, none, err
	}
	s.agents.learn(n.UUID, reply.Config.AgentToken)
	return n, reply.Config, nil
}

// token asks the rackd that runs the node's work for the agent's token, which it gives
// until an agent has shown it.
func (s *Server) token(r *Request, n *store.Node) (reply agentapi.LookupReply, err error) {
	reply.Config.HeartbeatTimeout = ramdiskTimeout
	defer func() {
		if r.Version < tokenSince { // the rackd is asked all the same: it knows whether the caller is the machine
			reply.Config = agentapi.LookupConfig{HeartbeatTimeout: ramdiskTimeout, SkipBMCDetect: reply.Config.SkipBMCDetect}
		}
	}()
	err = s.askHolder(r, n, ask.RamdiskLookup, ask.Lookup{Node: n.UUID, Caller: r.from(), System: r.system()}, &reply)
	if own := interface{ HTTPStatus() int }(nil); errors.As(err, &own) && own.HTTPStatus() == http.StatusNotFound {
		if s.LookupAnyState {
			return reply, nil // nothing is done with the node, so there is no token
		}
		err = notFound()
	}
	return reply, err
}

// askHolder puts a question to the rackd that runs the node's work; without one, or
// before it was heard of, to the one that the ring names.
func (s *Server) askHolder(r *Request, n *store.Node, method ask.Method, args, out any) error {
	for _, m := range s.Roster.Conductors() {
		if m.Name != n.Reservation || n.Reservation == "" {
			continue
		}
		raw, err := json.Marshal(args)
		if err != nil {
			return err
		}
		body, err := s.Ask.Ask(r.Context(), m, ask.Request{Method: method, Node: n.UUID, Driver: n.Driver, Args: raw})
		if err != nil || out == nil {
			return err
		}
		return json.Unmarshal(body, out)
	}
	return s.ask(r, n, method, args, out)
}
