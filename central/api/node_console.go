package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/console"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/work"
)

const (
	consolePath = "nodes/{node}/states/console"
	// getConsole and setConsoleState are Ironic's rules. Who may get the console may type into it: in Ironic the URL is enough
	// for that.
	getConsole      = "baremetal:node:get_console"
	setConsoleState = "baremetal:node:set_console_state"
)

// nodeConsole is the console of a node. The stream and the log are ours: Ironic has a port for each console, at the conductor's host.
func (s *Server) nodeConsole() Resource {
	return Resource{Routes: []Route{
		{Method: http.MethodGet, Path: consolePath, Summary: "Show the console of a node", Policy: getConsole, Handle: s.showConsole, Shows: consoleAnswer},
		{Method: http.MethodPut, Path: consolePath, Summary: "Switch the console of a node", Policy: setConsoleState, Handle: s.setConsole, Takes: consoleBody, Success: http.StatusAccepted},
		{Method: http.MethodGet, Path: consolePath + "/stream", Summary: "Open the console of a node, as a WebSocket", Policy: getConsole, Handle: s.openConsole, Success: http.StatusSwitchingProtocols},
		{Method: http.MethodGet, Path: consolePath + "/log", Summary: "Show what a node's machine wrote to its console last", Policy: getConsole, Handle: s.consoleLog},
	}}
}

func (s *Server) showConsole(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	if !n.ConsoleEnabled { // which nodes without a console are, too: no rackd is asked of those
		return ok([]byte(`{"console_enabled":false,"console_info":null}`))
	}
	var info map[string]any
	if err := s.ask(r, n, ask.Console, nil, &info); err != nil {
		return Reply{}, err
	}
	if info == nil {
		info = map[string]any{"type": "websocket"}
	}
	switch { // the rackd carries it
	case info["url"] != nil:
	case info["type"] == "vnc" && s.ConsolePage != "":
		info["url"] = r.Base + s.ConsolePage + n.UUID
	default:
		info["url"] = "ws" + strings.TrimPrefix(r.Base, "http") + "/v1/nodes/" + n.UUID + "/states/console/stream"
	}
	return ok(append(wire.AppendValue([]byte(`{"console_enabled":true,"console_info":`), info), '}'))
}

func (s *Server) setConsole(r *Request) (Reply, error) {
	v, err := r.argument("enabled")
	if err != nil {
		return Reply{}, err
	}
	on := false
	if v != nil { // null is no yes
		if on, err = truth("enabled", v); err != nil {
			return Reply{}, err
		}
	}
	return s.adjust(r, dispatch.Adjustment{Change: work.Change{Console: &on}, What: "console " + onOff(on)}, statesLocation(r)+"/console")
}

// enabledConsole returns the path's node, whose console is enabled.
func (s *Server) enabledConsole(r *Request) (*store.Node, error) {
	if err := r.Query.Allow(); err != nil {
		return nil, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return nil, err
	}
	if !n.ConsoleEnabled {
		return nil, notEnabled(n)
	}
	return n, nil
}

func notEnabled(n *store.Node) error {
	return wire.Invalid("Console access is not enabled on node %s", n.UUID)
}

// openConsole opens a session of a node's console.
func (s *Server) openConsole(r *Request) (Reply, error) {
	if r.Header.Get(microversion.Header) == "" {
		r.Version = microversion.Max // a page in a browser can ask for none, and nodes have names for people
	}
	n, err := s.enabledConsole(r)
	if err != nil {
		return Reply{}, err
	}
	if !console.Wanted(r.Header) {
		return Reply{}, wire.Errorf(http.StatusUpgradeRequired, "The console of node %s is a WebSocket: open it with a client that speaks those, such as `ironyard node console`.", n.UUID)
	}
	if err := s.sameOrigin(r); err != nil {
		return Reply{}, err
	}
	leave, err := s.consoles.Enter(n.UUID, r.payer())
	if err != nil {
		return Reply{}, wire.Errorf(http.StatusServiceUnavailable, "Node %s: %v. Close one, or try again later.", n.UUID, err)
	}
	if err := s.tellConsole(r, n); err != nil {
		leave()
		return Reply{}, err
	}
	rack := &consoleRack{s: s, r: r, id: n.UUID}
	return Reply{Status: http.StatusSwitchingProtocols, Upgrade: func(ctx context.Context) {
		defer leave()
		began := time.Now()
		session, err := console.Accept(r.writer, r.Request, rack)
		if err != nil { // which its client has been told
			s.Log.Info("no session of a console", "request_id", r.ID, "node", n.UUID, "error", err)
			return
		}
		s.Log.Info("a session of a console begins", "request_id", r.ID, "node", n.UUID, "user", r.Caller.Name())
		err = session.Run(ctx)
		s.Log.Info("a session of a console has ended", "request_id", r.ID, "node", n.UUID, "user", r.Caller.Name(), "lasted", time.Since(began).Round(time.Second), "reason", err)
	}}, nil
}

// sameOrigin refuses a page of another site. A browser sends along the credentials that it has for this site, and asks no one
// before it opens a WebSocket. A page that came without TLS is of another site than an API with TLS, whatever its host: who is on the way
// may have written it.
func (s *Server) sameOrigin(r *Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.CORSOrigins, origin) {
		return nil
	}
	from, here, direct := siteOf(origin), siteOf(r.Base), siteOf(s.askedFor(r.Request))
	if from.host != "" && (from == here || from == direct && direct.host != here.host) {
		return nil
	}
	return wire.Errorf(http.StatusForbidden, "A page of another site (%.80s) asks for a console of this one (%s). Let pages of that site in by --cors-origin. "+
		"Where a proxy ends TLS before this API, name it by --trusted-proxy, or its address by --public-endpoint.", origin, here)
}

// site is what a browser tells sites apart by.
type site struct{ scheme, host string }

func (s site) String() string { return s.scheme + "://" + s.host }

// siteOf is the site of a URL, with its port unless that is the usual one; empty where there is none.
func siteOf(address string) site {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return site{}
	}
	host := strings.ToLower(u.Host)
	if usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]; usual != "" && u.Port() == usual {
		host = strings.TrimSuffix(host, ":"+usual)
	}
	return site{u.Scheme, host}
}

// tellConsole notes in the node's history who opens its console.
func (s *Server) tellConsole(r *Request, n *store.Node) error {
	c := caller(r)
	if !s.consoles.News(n.UUID, c.User) {
		return nil
	}
	return storeError(s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, EventType: "console", Event: "console opened", User: c.User, Project: c.Project,
			State: n.ProvisionState, Target: n.TargetProvisionState, Revision: n.Revision})
	}))
}

// upgrade gives the connection to a session.
func (s *Server) upgrade(r *Request, client context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(client)
	defer cancel()
	if s.Stopping != nil {
		go func() {
			select {
			case <-s.Stopping:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	r.Request = r.WithContext(ctx)
	run(ctx)
}

// withCredentials takes the credentials of a page in a browser out of the WebSocket's subprotocols.
func withCredentials(req *http.Request) *http.Request {
	h := console.Credentials(req.Header)
	copied := *req
	copied.Header = h
	return &copied
}

// consoleLog answers with what is kept of a console.
func (s *Server) consoleLog(r *Request) (Reply, error) {
	n, err := s.enabledConsole(r)
	if err != nil {
		return Reply{}, err
	}
	rack := &consoleRack{s: s, r: r, id: n.UUID}
	var text []byte
	var at ask.ConsoleRead
	changed := false
	for until := time.Now().Add(heldWithin); ; {
		out, err := rack.Read(r.Context(), at)
		if err != nil && wire.AsError(err).Status == http.StatusServiceUnavailable && time.Now().Before(until) && r.Context().Err() == nil {
			select {
			case <-r.Context().Done():
			case <-time.After(heldEvery):
			}
			continue
		}
		if err != nil {
			return Reply{}, err
		}
		if out.Graphical {
			return Reply{}, wire.Invalid("Node %s has a graphical console, of which nothing is kept.", n.UUID)
		}
		if at.Log != "" && at.Log != out.Log { // another rackd goes on where this one was: its log has all that is kept
			if text, at = nil, (ask.ConsoleRead{}); changed {
				return Reply{}, wire.Errorf(http.StatusServiceUnavailable, "Node %s: its console goes from one rackd to another. Try again.", n.UUID)
			}
			changed = true
			continue
		}
		text = append(text, out.Data...)
		at.Log, at.From, at.State = out.Log, out.Next, out.State
		if len(out.Data) < ask.ConsolePiece || len(text) > maxConsoleLog {
			break
		}
	}
	r.writer.Header().Set("Cache-Control", "no-store")
	r.writer.Header().Set("X-Content-Type-Options", "nosniff")
	return Reply{Status: http.StatusOK, Body: text, ContentType: "application/octet-stream"}, nil
}

// How long a console that was enabled a moment ago may take to be held, and how often a rackd is asked meanwhile.
const (
	heldWithin = 2 * time.Second
	heldEvery  = 100 * time.Millisecond
)

// maxConsoleLog ends the log of a machine that writes as fast as it is read.
const maxConsoleLog = 1 << 20

// admittedFor is how long a caller counts as admitted to a console: what is typed key by key is not judged key by key.
const admittedFor = time.Second

// consoleRack asks the rackd of a console on behalf of a caller, whose rights it looks at again and again.
type consoleRack struct {
	s  *Server
	r  *Request
	id string

	mu    sync.Mutex
	node  *store.Node
	until time.Time
}

// admitted returns the node, if the caller may still use its console.
func (c *consoleRack) admitted(ctx context.Context, again bool) (*store.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !again && c.node != nil && time.Now().Before(c.until) {
		return c.node, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	caller, err := c.stillIs(ctx)
	if err != nil {
		return nil, err
	}
	n, err := c.s.Store.Node(ctx, c.id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, wire.Errorf(http.StatusNotFound, "Node %s could not be found.", c.id)
	}
	if err != nil {
		return nil, c.s.unavailable(err)
	}
	may := c.s.Policy().For(caller)
	switch {
	case !may.Allows(readNode, nodeTarget(n)):
		return nil, wire.Errorf(http.StatusNotFound, "Node %s could not be found.", c.id)
	case !may.Allows(getConsole, nodeTarget(n)):
		return nil, denied(getConsole)
	case !n.ConsoleEnabled:
		return nil, notEnabled(n)
	}
	c.node, c.until = n, time.Now().Add(admittedFor)
	return n, nil
}

// stillIs finds out again who asks: since the session began a token may have ended, a user may have gone or have other roles.
func (c *consoleRack) stillIs(ctx context.Context) (*auth.Caller, error) {
	caller, err := c.s.Auth.Authenticate(c.r.WithContext(auth.WithDoor(ctx, c.r)))
	refused, is := errors.AsType[*auth.Denied](err)
	switch {
	case is && refused.Status >= http.StatusInternalServerError:
		return nil, wire.Errorf(refused.Status, "%s", refused.Message)
	case is || errors.Is(err, auth.ErrNone):
		return nil, wire.Errorf(http.StatusUnauthorized, "The credentials of this session are no longer good: open another one.")
	case err != nil:
		return nil, c.s.unavailable(err)
	}
	return caller, nil
}

// ask asks the rackd that owns the node now. One that refuses the tenancy is asked once more, of the node as it is then.
func (c *consoleRack) ask(ctx context.Context, method ask.Method, within time.Duration, args func(tenancy string) any, out any) error {
	for again := false; ; again = true {
		n, err := c.admitted(ctx, again)
		if err != nil {
			return err
		}
		m, err := c.s.dispatch.Owner(n, http.StatusServiceUnavailable)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(args(n.Tenancy()))
		if err != nil {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, within)
		body, err := c.s.Ask.Ask(asking, m, ask.Request{Method: method, Node: n.UUID, NodeRevision: n.RackRevision, Driver: n.Driver, Args: raw})
		cancel()
		if e, answered := errors.AsType[*ask.Error](err); answered && e.Status == http.StatusConflict {
			if !again {
				continue
			}
			return wire.Errorf(http.StatusServiceUnavailable, "%s", e.Message) // it has not heard of the change yet, or has heard of the next
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(body, out)
	}
}

// consoleAnswerWithin is how long a rackd may take for an answer, apart from the wait that it is asked for.
const consoleAnswerWithin = 3 * time.Second

// Read implements console.Rack.
func (c *consoleRack) Read(ctx context.Context, q ask.ConsoleRead) (out ask.ConsoleOutput, err error) {
	err = c.ask(ctx, ask.ReadConsole, time.Duration(q.WaitMS)*time.Millisecond+consoleAnswerWithin, func(tenancy string) any {
		q.Tenancy = tenancy
		return q
	}, &out)
	return out, err
}

// Write implements console.Rack.
func (c *consoleRack) Write(ctx context.Context, q ask.ConsoleInput) error {
	return c.ask(ctx, ask.WriteConsole, ask.Timeout, func(tenancy string) any {
		q.Tenancy = tenancy
		return q
	}, new(struct{}))
}

// OpenViewer implements console.Rack.
func (c *consoleRack) OpenViewer(ctx context.Context, q ask.Viewer) error {
	return c.ask(ctx, ask.OpenViewer, ask.Timeout, func(tenancy string) any {
		q.Tenancy = tenancy
		return q
	}, new(struct{}))
}

// ReadViewer implements console.Rack.
func (c *consoleRack) ReadViewer(ctx context.Context, q ask.ViewerRead) (out ask.ViewerOutput, err error) {
	err = c.ask(ctx, ask.ReadViewer, time.Duration(q.WaitMS)*time.Millisecond+consoleAnswerWithin, func(tenancy string) any {
		q.Tenancy = tenancy
		return q
	}, &out)
	return out, err
}

// WriteViewer implements console.Rack.
func (c *consoleRack) WriteViewer(ctx context.Context, q ask.ViewerInput) error {
	return c.ask(ctx, ask.WriteViewer, ask.Timeout, func(tenancy string) any {
		q.Tenancy = tenancy
		return q
	}, new(struct{}))
}

// CloseViewer implements console.Rack.
func (c *consoleRack) CloseViewer(ctx context.Context, q ask.Viewer) error {
	return c.ask(ctx, ask.CloseViewer, ask.Timeout, func(tenancy string) any {
		q.Tenancy = tenancy
		return q
	}, new(struct{}))
}
