// Package commandapi is the agent's HTTP API on port 9999, in the form of
// ironic-python-agent's (ironic-facts §5.1).
//
// It may import protocol/agentapi and agent/command. Invariants: every request that
// sees or starts a command carries the agent token, compared in constant time, and
// before the agent has a token of its own there are no commands; bodies are bounded.
package commandapi

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// MaxBody bounds a request: a config drive of 64 MiB in base64, and some room.
const MaxBody = 96 << 20

// Server answers the agent's API. Its fields are set before it serves.
type Server struct {
	Runner    *command.Runner
	Token     string
	Version   string
	StartedAt time.Time
	Log       *slog.Logger
	// Limit bounds a request in bytes; zero means MaxBody.
	Limit int64

	refusals refusals
}

// Handler serves every path with and without /v1.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/v1"} {
		mux.HandleFunc("GET "+prefix+"/status", s.status)
		mux.HandleFunc("GET "+prefix+"/status/{$}", s.status)
		mux.HandleFunc("GET "+prefix+"/commands", s.guarded(s.list))
		mux.HandleFunc("GET "+prefix+"/commands/{$}", s.guarded(s.list))
		mux.HandleFunc("GET "+prefix+"/commands/{id}", s.guarded(s.get))
		mux.HandleFunc("POST "+prefix+"/commands", s.guarded(s.start))
		mux.HandleFunc("POST "+prefix+"/commands/{$}", s.guarded(s.start))
	}
	mux.HandleFunc("GET /{$}", s.root)
	mux.HandleFunc("GET /v1", s.v1)
	mux.HandleFunc("GET /v1/{$}", s.v1)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fault(w, http.StatusNotFound, "Client", "there is no "+r.Method+" "+r.URL.Path)
	})
	return mux
}

// guarded lets a request pass that carries the token, as a parameter like
// ironic-python-agent's clients send it or as a header, which stays out of logs.
func (s *Server) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := r.URL.Query().Get("agent_token")
		if given == "" {
			given = r.Header.Get("X-Ironyard-Agent-Token")
		}
		// Hashed first, so that not even the length can be measured.
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.Token))
		if s.Token == "" || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
			s.refusals.tell(s.Log, r.Pattern, r.RemoteAddr)
			fault(w, http.StatusUnauthorized, "Client", "Token invalid.")
			return
		}
		next(w, r)
	}
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, agentapi.Status{StartedAt: s.StartedAt, Version: s.Version})
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, agentapi.CommandList{Commands: s.Runner.List()})
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, r.PathValue("id"))
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var req agentapi.CommandRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, cmp.Or(s.Limit, MaxBody))).Decode(&req); err != nil {
		code := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			code = http.StatusRequestEntityTooLarge
		}
		fault(w, code, "Client", "reading the command: "+err.Error())
		return
	}
	if req.Name == "" || len(req.Name) > 200 || len(req.ID) > 200 {
		fault(w, http.StatusBadRequest, "Client", "a command needs a name, and name and ironyard_id of at most 200 bytes")
		return
	}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		req.From = at.Addr().Unmap()
	}
	req.Work = r.Header.Get(agentapi.WorkHeader)
	if text := r.Header.Get(agentapi.EpochHeader); text != "" {
		epoch, err := strconv.ParseUint(text, 10, 64)
		if err != nil || len(req.Work) > 200 {
			fault(w, http.StatusBadRequest, "Client", "headers "+agentapi.WorkHeader+" and "+agentapi.EpochHeader+" are a work of at most 200 bytes and a number")
			return
		}
		req.Epoch = epoch
	}
	c, err := s.Runner.Start(req)
	switch {
	case errors.Is(err, command.ErrUnknown):
		fault(w, http.StatusNotFound, "Client", err.Error())
	case errors.Is(err, command.ErrBusy), errors.Is(err, command.ErrConflict), errors.Is(err, command.ErrFenced):
		fault(w, http.StatusConflict, "Client", err.Error())
	case err != nil:
		fault(w, http.StatusInternalServerError, "Server", err.Error())
	default:
		s.answer(w, r, c.ID)
	}
}

// answer sends a command, after its end if the request says wait=true.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, id string) {
	ctx := r.Context()
	if !strings.EqualFold(r.URL.Query().Get("wait"), "true") {
		ctx = ended
	}
	c, err := s.Runner.Wait(ctx, id)
	if err != nil {
		fault(w, http.StatusNotFound, "Client", err.Error())
		return
	}
	reply(w, http.StatusOK, c)
}

type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

type version struct {
	ID    string `json:"id"`
	Links []link `json:"links"`
}

func base(r *http.Request) string { return "https://" + r.Host + "/" }

func (s *Server) root(w http.ResponseWriter, r *http.Request) {
	v := version{ID: "v1", Links: []link{{base(r) + "v1/", "self"}}}
	reply(w, http.StatusOK, map[string]any{
		"name": "Ironyard agent", "description": "Runs in the ramdisk of a bare-metal machine; speaks ironic-python-agent's API.",
		"versions": []version{v}, "default_version": v,
	})
}

func (s *Server) v1(w http.ResponseWriter, r *http.Request) {
	self := func(path string) []link { return []link{{base(r) + path, "self"}} }
	reply(w, http.StatusOK, map[string]any{
		"id": "v1", "links": self("v1/"), "commands": self("v1/commands/"), "status": self("v1/status/"),
		"media_types": []map[string]string{{"base": "application/json", "type": "application/vnd.openstack.ironic-python-agent.v1+json"}},
	})
}

func fault(w http.ResponseWriter, code int, kind, text string) {
	reply(w, code, agentapi.Fault{Code: kind, String: text})
}

func reply(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"faultcode":"Server","faultstring":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
