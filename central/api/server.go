// Package api is central's REST API, wire-compatible with Ironic's, versions 1.1 to 1.115.
//
// A request goes through Server.ServeHTTP (path, version, route, limits), a
// handler of its resource's file, and central/store or central/dispatch. Nothing
// is written to the client before the handler has returned, so an answer is whole.
//
// Adding a resource takes one file with a function that returns its Resource, and
// one line in resources (routes.go). What a resource's fields are lies in a table
// of package fields, never in code.
//
// It imports protocol, central/auth, central/policy, central/store, central/inspection, central/strangers,
// central/console and central/dispatch. Who asks
// is found out first (Config.Auth), and each route names the rule that decides whether
// they may (authorize.go): nothing of a handler runs before. What a caller may not
// read is not found; lists show a project what is its own. Requests that a browser
// sends for another site are refused.
//
// Its failpoint: api.answer, with the method as detail, when a request has been carried
// out and its client has not heard of it.
package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/allocation"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/console"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/strangers"
	"github.com/ironyard/ironyard/protocol/failpoint"
)

// Server is the handler. It is safe for concurrent use.
type Server struct {
	Config
	dispatch  *dispatch.Dispatcher
	allocator *allocation.Allocator
	router    *router
	resources []Resource
	document  func() []byte // OpenAPI
	crossSite *http.CrossOriginProtection
	encoded   encodedNodes
	anew      chan struct{} // one in it for each page that is encoded anew

	buffers, smallBuffers, pieces sync.Pool // of *[]byte
	longest                       atomic.Int64
	// inWork are the requests of callers who are known; fromRamdisks, among them, those of agents that are. Others take
	// slots of strangers.
	inWork, fromRamdisks *inWork
	bodies               *bodyRoom
	consoles             *console.Sessions
	strangers            *strangers.Gate
	agents               *knownAgents
	lockWaits            lockWaits
	outage               outage
	health               health
}

// requestTimeout bounds what a request waits for: a database that hangs must not keep
// clients for ever.
const requestTimeout = 30 * time.Second

// pointAnswer is where a replica may die after a request has been carried out and
// before its client hears of it. The detail is the method.
var pointAnswer = failpoint.New("api.answer")

// asJSON is the type of nearly all bodies.
var asJSON = []string{"application/json"}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	if req.URL.Path == healthcheckPath {
		s.writeCORS(h, req)
		s.healthcheck(w, req)
		return
	}
	r := &Request{ID: "req-" + uuid.NewString(), writer: w, Base: s.base(req), bodies: s.bodies}
	defer r.release()
	r.boot, req = cutBoot(req)
	if console.Wanted(req.Header) {
		req = withCredentials(req)
	}
	r.Request = req
	id := []string{r.ID}
	h["Openstack-Request-Id"], h["X-Openstack-Request-Id"] = id, id
	microversion.WriteRange(h)
	s.writeCORS(h, req)
	r.stranger = stranger{gate: s.strangers, from: s.address(req), is: true}
	ctx, cancel := context.WithTimeout(req.Context(), requestTimeout)
	defer cancel()
	r.Request = req.WithContext(s.begin(auth.WithDoor(ctx, r), r))
	reply, err := s.answer(r)
	if r.leave != nil {
		r.leave() // a stream, which may go on for an hour, has a bound of its own
	}
	read := r.stranger.body != nil
	r.stranger.body = nil // its room was given back
	pointAnswer.Hit(req.Method)
	if err != nil {
		if r.stranger.is && !read && req.ContentLength != 0 {
			h.Set("Connection", "close") // net/http would wait for the body, as long as that may trickle in
		}
		if r.stranger.beyond {
			s.pause(req.Context())
		}
		s.refuse(r, err, req.Context().Err() != nil)
		return
	}
	s.end(r, reply.Status, nil)
	s.usable(ctx)
	if reply.Stream != nil {
		s.serve(r, req.Context(), reply.Stream)
		return
	}
	if reply.Upgrade != nil {
		s.upgrade(r, req.Context(), reply.Upgrade)
		return
	}
	if reply.Location != "" {
		h.Set("Location", reply.Location)
	}
	if reply.Body != nil {
		h["Content-Type"] = asJSON
		if reply.ContentType != "" {
			h.Set("Content-Type", reply.ContentType)
		}
		h.Set("Content-Length", strconv.Itoa(len(reply.Body))) // else a long answer goes out in chunks
	}
	if reply.Long != nil {
		h["Content-Type"] = asJSON
		h.Set("Content-Length", strconv.Itoa(reply.Long.Size()))
	}
	w.WriteHeader(reply.Status)
	if reply.Long != nil {
		reply.Long.WriteTo(w) // the client is gone when it fails
	}
	if reply.Body != nil && req.Method != http.MethodHead {
		w.Write(reply.Body) // the client is gone when it fails
	}
	if reply.lent {
		s.reuse(reply.Body)
	}
}

// answer finds the route and runs its handler.
func (s *Server) answer(r *Request) (reply Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("handler panicked", "request_id", r.ID, "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			err = wire.AsError(errPanic)
		}
	}()
	version, versionErr := microversion.Negotiate(r.Header)
	if versionErr == nil {
		version.Write(r.writer.Header())
	}
	if r.Method == http.MethodOptions { // what browsers may do is in the headers
		return Reply{Status: http.StatusOK}, nil
	}
	if err := s.crossSite.Check(r.Request); err != nil {
		return Reply{}, wire.Errorf(http.StatusForbidden, "A browser sent this request for another site: %v", err)
	}
	parts := pathParts(r.URL)
	if len(parts) == 0 {
		return s.top(r, versionErr)
	}
	r.Version = version
	if parts[0] == "v1" {
		parts = parts[1:]
	}
	r.cutSuffix(parts)
	nodeToTheFront(parts)
	byArgument := asksForScript(r.Request, parts)
	if byArgument {
		parts = append(parts, ipxeConfig)
	}
	methods, params := s.router.find(parts)
	field := ""
	if len(methods) == 0 && r.Method == http.MethodGet {
		methods, params, field = s.router.fieldOf(parts)
	}
	if r.boot != "" && !ofRamdisks(methods) {
		return Reply{}, wire.FrameworkError(http.StatusNotFound, "")
	}
	if err := s.identify(r, methods); err != nil { // before anything is said about what there is
		return Reply{}, err
	}
	if !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0) { // which no database need take
		return Reply{}, wire.FrameworkError(http.StatusBadRequest, "")
	}
	if versionErr != nil {
		return Reply{}, versionErr
	}
	route, err := s.route(r, parts, methods)
	if err != nil {
		return Reply{}, err
	}
	r.params = params
	if route.ofStrangers() {
		r.intends(route)
		if r.leave, err = s.anonymously(r, route); err != nil {
			return Reply{}, err
		}
	}
	if !acceptsJSON(r.Header.Get("Accept")) {
		return Reply{}, wire.FrameworkError(http.StatusNotAcceptable, "The answers of this API are JSON, which the request's Accept header excludes.")
	}
	r.intends(route)
	if s.routed != nil {
		s.routed(route)
	}
	if r.Query, err = wire.ParseQuery(r.URL.RawQuery); err != nil {
		return Reply{}, err
	}
	if byArgument {
		delete(r.Query, "method")
	}
	r.calls(route)
	if field != "" {
		if r.Query.Has("fields") {
			return Reply{}, wire.FrameworkError(http.StatusNotFound, "")
		}
		r.Query["fields"] = field
	}
	r.asked()
	if err := s.authorize(r, route); err != nil {
		return Reply{}, err
	}
	if err := route.late(r.Version); err != nil {
		return Reply{}, err
	}
	reply, err = s.carryOut(r, route.Handle)
	if err == nil && r.scope != "" && r.unlimited {
		s.Log.Error("a list that is not limited to its caller's project was kept back", "request_id", r.ID, "route", route.Path)
		return Reply{}, denied(route.Policy)
	}
	return reply, err
}

// top answers what is asked of "/".
func (s *Server) top(r *Request, versionErr error) (Reply, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return Reply{}, wire.FrameworkError(http.StatusMethodNotAllowed, "")
	}
	if versionErr != nil {
		return Reply{}, versionErr
	}
	return s.root(r)
}

// identify finds out who asks, unless everybody may, and lets a caller who is known in.
func (s *Server) identify(r *Request, methods map[string]*Route) error {
	if public(methods) {
		return nil
	}
	caller, err := s.Auth.Authenticate(r.Request)
	if err != nil {
		return err
	}
	r.Caller, r.stranger.is = *caller, false
	if !s.inWork.enter() {
		r.cause = nil // the database is not asked to keep that
		return tooMany(r, s.inWork, "requests")
	}
	r.leave = s.inWork.leave
	return nil
}

// route finds the route for a request.
func (s *Server) route(r *Request, parts []string, methods map[string]*Route) (*Route, error) {
	route := methods[r.Method]
	if get := methods[http.MethodGet]; r.Method == http.MethodHead && get != nil && get.heads() {
		route = get
	}
	switch {
	case namesPart(parts):
		return nil, wire.FrameworkError(http.StatusNotFound, "")
	case route != nil && strings.HasSuffix(route.Path, "/detail") && strings.HasSuffix(r.URL.Path, "/"): // only there does Ironic mind the slash
		return nil, wire.Errorf(http.StatusNotFound, "Resource could not be found.")
	case route == nil:
		err := s.astray(r.Method, parts, r.Version, methods)
		if wire.AsError(err).Status == http.StatusMethodNotAllowed && len(methods) > 0 {
			r.writer.Header().Set("Allow", allow(methods))
		}
		return nil, err
	case !route.AfterPolicy:
		return route, route.late(r.Version)
	}
	return route, nil
}

// cutSuffix drops ".json" from the path's last part, which versions before 1.91
// ignore there.
func (r *Request) cutSuffix(parts []string) {
	const suffix = ".json"
	if len(parts) == 0 || r.Version >= 91 || !microversion.Explicit(r.Header) {
		return
	}
	last := &parts[len(parts)-1]
	if cut, found := strings.CutSuffix(*last, suffix); found && cut != "" {
		*last, r.suffix = cut, suffix
	}
}

// behind are the parts of a node that may be named before the node itself:
// nodes/states/console/IDENT is nodes/IDENT/states/console. No node has such a name.
var behind = []string{"maintenance", "management", "states", "validate"}

// nodeToTheFront puts the node of such a path where the others have it.
func nodeToTheFront(parts []string) {
	if len(parts) < 3 || parts[0] != "nodes" || !slices.Contains(behind, parts[1]) {
		return
	}
	last := len(parts) - 1
	if parts[last] == "supported" && last > 2 {
		last--
	}
	node := parts[last]
	copy(parts[2:last+1], parts[1:last])
	parts[1] = node
}

// outsideFramework reports whether an error of these paths has the shape of the service where
// others have that of the framework, as in Ironic: versions at the root, methods at /v1.
func outsideFramework(path string, status int) bool {
	switch strings.Trim(path, "/") {
	case "":
		return status == http.StatusNotAcceptable
	case "v1":
		return status == http.StatusMethodNotAllowed
	}
	return false
}

// malformed is what Ironic says of methods that /v1 does not have.
const malformed = "The server could not comply with the request since it is either malformed or otherwise incorrect."

// refuse writes an error; gone: the client does not wait for it any more.
func (s *Server) refuse(r *Request, err error, gone bool) {
	if d, ok := errors.AsType[*auth.Denied](err); ok {
		s.refuseCaller(r, d)
		return
	}
	e := wire.AsError(err)
	if outsideFramework(r.URL.Path, e.Status) {
		e = &wire.Error{Status: e.Status, Text: cmp.Or(e.Text, malformed)}
	}
	if e.Status == http.StatusInternalServerError {
		e = wire.AsError(s.unavailable(err))
	}
	if e.Status >= 500 {
		s.tell(r, e, err, gone)
	}
	s.end(r, e.Status, e)
	r.writer.Header().Set("Content-Type", "application/json")
	r.writer.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		r.writer.Write(e.Body())
	}
}

// tell logs that a request has failed: a line of its own, unless it is one of many that an outage of the database or
// the budget of strangers accounts for.
func (s *Server) tell(r *Request, e *wire.Error, err error, gone bool) {
	level := slog.LevelError
	if e.Status == http.StatusServiceUnavailable || gone {
		level = slog.LevelWarn
	}
	switch {
	case s.isOutage(err):
		s.outage.begun(s.Log, err)
		level = slog.LevelDebug
	case (r.stranger.is || r.stranger.beyond) && !s.strangers.MayLog(r.stranger.from):
		return
	}
	s.Log.Log(r.Context(), level, "request failed", "request_id", r.ID, "global_request_id", r.globalID(), "method", r.Method, "path", r.URL.Path,
		"status", e.Status, "error", err)
}

// pause lets a stranger wait who is beyond the budget, which costs a connection and nothing else.
func (s *Server) pause(ctx context.Context) {
	t := time.NewTimer(s.strangers.Pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
