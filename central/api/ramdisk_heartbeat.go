package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
)

// maxHeartbeat bounds a heartbeat, in bytes: it says some hundred, and a certificate.
const maxHeartbeat = 64 << 10

// heartbeatFields are what a heartbeat may say, with the version that brought each.
var heartbeatFields = map[string]microversion.Version{"callback_url": 22, "agent_version": 36, "agent_token": 22, "agent_verify_ca": 68,
	"agent_status": 72, "agent_status_message": 72}

// installerStates are what an installer that is no agent says of itself.
var installerStates = []string{"start", "end", "error"}

func (s *Server) heartbeat(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	ident, err := beatsFor(r, body)
	if err != nil {
		return Reply{}, err
	}
	hb, tokened, err := readHeartbeat(r, body)
	if err != nil {
		return Reply{}, err
	}
	return s.beat(r, ident, hb, tokened)
}

// beatsFor returns the name or UUID of the node that a heartbeat is from: the path's, or,
// where the path names none, the body's, which is taken out of it.
func beatsFor(r *Request, body map[string]any) (string, error) {
	if len(r.params) > 0 {
		return r.Param(0), nil
	}
	v, given := body["node_ident"]
	if !given || v == nil {
		return "", wire.Invalid("Missing mandatory parameter: node_ident")
	}
	ident, isText := v.(string)
	if !isText {
		return "", wire.Invalid("Expected UUID or name for node_ident: %.80s", wire.Repr(v))
	}
	delete(body, "node_ident")
	return ident, nil
}

// beat hands the heartbeat of a node to the rackd that runs its work.
func (s *Server) beat(r *Request, ident string, hb agentapi.Heartbeat, tokened bool) (Reply, error) {
	var n *store.Node
	err := s.eachIdent(r, ident, func(ident string) (err error) {
		n, err = s.Store.Node(r.Context(), ident)
		return err
	})
	if err != nil {
		return Reply{}, err
	}
	r.concerns(n)
	if u, err := url.Parse(hb.CallbackURL); hb.CallbackURL != "" && (err != nil || !strings.Contains(u.Scheme, "http")) {
		return Reply{}, wire.Invalid("An issue with the supplied \"callback_url\" has been detected.")
	}
	if !tokened {
		return Reply{}, wire.Invalid("Agent token is required for heartbeat processing.")
	}
	if hb.Status != "" && !slices.Contains(installerStates, hb.Status) {
		return Reply{}, wire.Invalid("Agent status is invalid. Valid states are %s.", strings.Join(installerStates, ","))
	}
	if hb.AgentVersion == "" && hb.Status == "" { // an installer that is no agent has none
		return Reply{}, wire.Invalid("Agent did not transmit a version, and a version is required. Please update the agent being used.")
	}
	if err := s.askHolder(r, n, ask.RamdiskHeartbeat, ask.Heartbeat{Heartbeat: hb, Caller: r.from()}, nil); err != nil {
		if wire.AsError(err).Status < http.StatusInternalServerError {
			s.agents.forget(ident, hb.AgentToken)
		}
		return Reply{}, err
	}
	s.agents.learn(ident, hb.AgentToken)
	return Reply{Status: http.StatusAccepted}, nil
}

// tooNew refuses a field of a heartbeat in Ironic's words, which differ.
func tooNew(field string) error {
	switch field {
	case "agent_status", "agent_status_message":
		return wire.Invalid("Fields \"agent_status\" and \"agent_status_message\" not recognised.")
	case "agent_version":
		return wire.Invalid("Field %q not recognised", field)
	}
	return wire.Invalid("Field %q not recognised in this version", field)
}

// readHeartbeat reads what can be judged without the node; tokened: it has a token,
// which may be empty.
func readHeartbeat(r *Request, body map[string]any) (hb agentapi.Heartbeat, tokened bool, err error) {
	into := map[string]*string{"callback_url": &hb.CallbackURL, "agent_version": &hb.AgentVersion, "agent_token": &hb.AgentToken,
		"agent_verify_ca": &hb.AgentVerifyCA, "agent_status": &hb.Status, "agent_status_message": &hb.StatusMessage}
	for name, v := range body {
		since, known := heartbeatFields[name]
		switch {
		case !known:
			return hb, false, wire.Invalid("Unexpected arguments: %.80s", name)
		case v == nil:
			continue
		case r.Version < since:
			return hb, false, tooNew(name)
		}
		text, isText := v.(string)
		if !isText {
			return hb, false, wire.Invalid("Expected string for %s: %.80s", name, wire.ReprOf(name, v))
		}
		*into[name] = text
	}
	if _, given := body["callback_url"]; !given {
		return hb, false, wire.Invalid("Missing mandatory parameter: callback_url")
	}
	_, tokened = body["agent_token"].(string)
	return hb, tokened, nil
}
