// Package agentdoor is where agents call: lookup, heartbeat and log lines, over TLS.
//
// It may import protocol and rackd/strangers; what it needs of the conductor it declares as
// Agents. What comes before the API's own path in a URL is the id of a boot, which the boot
// script gave the agent: with it and the address of the peer, a lookup shows that it comes
// from the machine that rackd has booted. Heartbeat and log need the token that the
// lookup gives. Bodies are bounded, and so are connections whose peer has shown nothing yet, what refused calls are
// logged, and the lines of an agent's log (rackd/strangers).
package agentdoor

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/smbios"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// Agents answers for the conductor. Safe for concurrent use.
type Agents interface {
	LookupAgent(ctx context.Context, q ask.Lookup) (agentapi.LookupReply, error)
	Heartbeat(ctx context.Context, node string, hb ask.Heartbeat) error
	CheckToken(node, token string) error
}

// Limits of what agents may send.
const (
	maxHeartbeat = 64 << 10  // as at central
	maxLog       = 512 << 10 // an agent sends half of that, and a line on those that it has lost
	maxLine      = 4 << 10   // is logged of a line
	maxAddresses = 128
)

// TokenHeader carries the token with log lines.
const TokenHeader = "X-Ironyard-Agent-Token"

// Door serves agents.
type Door struct {
	agents Agents
	log    *slog.Logger
	gate   *strangers.Gate
	lines  *strangers.LineCount
	status func(error) int
	// beside serves what is below a prefix of paths and is not for agents.
	beside map[string]http.Handler
}

// New returns a door; status maps the errors of agents to HTTP statuses. gate bounds what strangers cost.
func New(agents Agents, status func(error) int, gate *strangers.Gate, log *slog.Logger) *Door {
	return &Door{agents: agents, status: status, log: log, gate: gate, lines: gate.Lines("the agents' door")}
}

// Beside serves on the same listener what is below a prefix of paths and is for others than agents. It is called before Handler and Serve.
func (d *Door) Beside(prefix string, h http.Handler) {
	if d.beside == nil {
		d.beside = map[string]http.Handler{}
	}
	d.beside[prefix] = h
}

// Serve serves agents on l, which it closes, until ctx ends. An agent gets the
// certificate that it asks for by its DoorName, if that is one of ids; else that of the
// rackd's own group.
func (d *Door) Serve(ctx context.Context, l net.Listener, ids *Identities) error {
	srv := &http.Server{Handler: d.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }}
	l = d.gate.Listen(l)
	l = tls.NewListener(l, &tls.Config{GetCertificate: ids.choose, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve agents on %s: %w", l.Addr(), err)
	}
	return nil
}

// Handler is the door without its listener.
func (d *Door) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.LookupPath, d.lookup)
	mux.HandleFunc("POST "+agentapi.HeartbeatPath+"{node}", d.heartbeat)
	mux.HandleFunc("POST "+agentapi.LogPath+"{node}", d.logLines)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"name": "Ironyard rackd", "default_version": map[string]string{"id": "v1", "version": agentapi.APIVersion}})
	})
	for prefix, h := range d.beside {
		mux.Handle(prefix, h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(agentapi.APIVersionHeader, agentapi.APIVersion)
		from := ask.Caller{}
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			from.From = peer.Addr().Unmap()
		}
		if from.BootID, r.URL.Path = agentapi.CutBoot(r.URL.Path); from.BootID != "" {
			r.URL.RawPath = ""
		}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, from)))
	})
}

// callerKey is the key of a request's ask.Caller in its context.
type callerKey struct{}

func caller(r *http.Request) ask.Caller {
	from, _ := r.Context().Value(callerKey{}).(ask.Caller)
	return from
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// known has the connection of a request count as a stranger's no more.
func known(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		strangers.Known(c)
	}
}

func (d *Door) lookup(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var macs []string
	for a := range strings.SplitSeq(q.Get("addresses"), ",") {
		if a == "" {
			continue
		}
		hw, err := net.ParseMAC(a)
		if err != nil || len(macs) == maxAddresses {
			fault(w, http.StatusBadRequest, fmt.Sprintf("addresses: %q is not a MAC address, or there are more than %d", a, maxAddresses))
			return
		}
		macs = append(macs, hw.String())
	}
	id := q.Get("node_uuid")
	if id != "" && uuid.Validate(id) != nil {
		fault(w, http.StatusBadRequest, "node_uuid is not a UUID")
		return
	}
	if len(macs) == 0 && id == "" {
		fault(w, http.StatusBadRequest, "name the machine by addresses=MAC,MAC or by node_uuid")
		return
	}
	answer, err := d.agents.LookupAgent(r.Context(), ask.Lookup{Addresses: macs, Node: id, Caller: caller(r),
		System: smbios.System{UUID: cut(q.Get(agentapi.QuerySystemUUID)), Serial: cut(q.Get(agentapi.QuerySystemSerial))}})
	if err != nil {
		if d.lines.OfStranger() {
			d.log.Warn("lookup refused", "addresses", macs, "node", id, "from", r.RemoteAddr, "error", err)
		}
		fault(w, d.status(err), err.Error())
		return
	}
	known(r)
	if d.lines.OfMachine(answer.Node.UUID) {
		d.log.Info("lookup", "node", answer.Node.UUID, "addresses", macs, "from", r.RemoteAddr)
	}
	reply(w, http.StatusOK, answer)
}

// cut bounds what an agent says of its machine.
func cut(s string) string { return s[:min(len(s), 128)] }

func (d *Door) heartbeat(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("node")
	body, leave, err := d.body(w, r)
	defer leave()
	if errors.Is(err, errBodies) {
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Connection", "close") // the rest of the body is not waited for
		fault(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	var hb agentapi.Heartbeat
	if err == nil {
		err = json.Unmarshal(body, &hb)
	}
	if err != nil {
		fault(w, http.StatusBadRequest, "heartbeat: "+err.Error())
		return
	}
	if err := d.agents.Heartbeat(r.Context(), id, ask.Heartbeat{Heartbeat: hb, Caller: caller(r)}); err != nil {
		if d.lines.OfStranger() {
			d.log.Warn("heartbeat refused", "node", strangers.Name(id), "from", r.RemoteAddr, "error", err)
		}
		fault(w, d.status(err), err.Error())
		return
	}
	known(r)
	w.WriteHeader(http.StatusAccepted)
}

// errBodies: strangers' part of the memory for large bodies is taken.
var errBodies = fmt.Errorf("heartbeats above %d bytes wait for others: too many are on their way (--strangers-bodies, --strangers-bodies-per-address)", strangers.Free)

// body reads a heartbeat, whose sender has shown nothing yet. What is above strangers.Free takes a place until leave is called.
func (d *Door) body(w http.ResponseWriter, r *http.Request) (body []byte, leave func(), err error) {
	in, leave := http.MaxBytesReader(w, r.Body, maxHeartbeat), func() {}
	length := int64(strangers.Free)
	if r.ContentLength >= 0 {
		length = min(length, r.ContentLength+1) // the one more meets the end
	}
	first := make([]byte, length)
	n, err := io.ReadFull(in, first)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return first[:n], leave, nil
	}
	if err != nil {
		return nil, leave, err
	}
	leave, ok := d.gate.Body(caller(r).From)
	if !ok {
		return nil, func() {}, errBodies
	}
	rest, err := io.ReadAll(in)
	return append(first, rest...), leave, err
}

// logLines takes in what the agent logs and logs it as the node's.
func (d *Door) logLines(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("node")
	if err := d.agents.CheckToken(id, r.Header.Get(TokenHeader)); err != nil {
		fault(w, d.status(err), err.Error())
		return
	}
	known(r)
	size := r.ContentLength
	if size < 0 || size > maxLog {
		size = maxLog
	}
	if !d.gate.MayShip(id, size) {
		// The agent keeps its lines, the newest of them, and sends them later. Another rackd is not asked: this is no 5xx.
		w.Header().Set("Retry-After", "30")
		w.Header().Set("Connection", "close")
		fault(w, http.StatusTooManyRequests, "this agent logs more than --strangers-log-rate and --strangers-log-burst allow; send these lines later")
		return
	}
	in := bufio.NewScanner(http.MaxBytesReader(w, r.Body, maxLog))
	in.Buffer(make([]byte, maxLine), maxLog+1)
	for in.Scan() {
		// Cut, not refused: the agent would send it again, with all before it, and nothing after.
		line := in.Bytes()[:min(len(in.Bytes()), maxLine)]
		d.log.Info("agent", "node", id, "line", strings.ToValidUTF8(string(line), "?"))
	}
	if err := in.Err(); err != nil {
		fault(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // an error means that the agent has gone
}

// fault answers as Ironic's API does: the error's JSON is a string in JSON.
func fault(w http.ResponseWriter, status int, text string) {
	inner, _ := json.Marshal(map[string]any{"faultcode": "Client", "faultstring": text, "debuginfo": nil})
	reply(w, status, map[string]string{"error_message": string(inner)})
}
