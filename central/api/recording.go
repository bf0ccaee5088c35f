package api

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// recorded says whether requests of a method go into the audit: those that may change
// something.
func recorded(method string) bool {
	return !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, method)
}

// The audit holds so much of what a client says, in bytes.
const (
	maxRecordedMethod = 32
	maxRecordedPath   = 255
	maxRecordedError  = 1000
)

// begin prepares the line of the audit of a request that may change something. What the
// request writes is written on its behalf.
func (s *Server) begin(ctx context.Context, r *Request) context.Context {
	if !recorded(r.Method) {
		return ctx
	}
	r.cause = &store.Cause{Audit: &store.Audit{At: s.Now().UTC().Truncate(time.Microsecond), RequestID: r.ID, Client: s.client(r.Request), Method: cut(r.Method, maxRecordedMethod),
		Path: cut(strings.Trim(r.URL.Path, "/"), maxRecordedPath), Result: store.Accepted}}
	return store.WithCause(ctx, r.cause)
}

// intends notes what a request is about, as soon as its route is known.
func (r *Request) intends(route *Route) {
	if r.cause == nil {
		return
	}
	a := r.cause.Audit
	a.Action, a.Status, a.Resource = route.Policy, int64(route.success()), resourceOf(route.Path)
	if len(r.params) > 0 {
		a.Object = cut(r.params[0], maxRecordedPath)
	}
	if route.Method == http.MethodPatch && a.Resource == "node" {
		r.cause.Action = "update"
	}
}

// asked notes who asks.
func (r *Request) asked() {
	if r.cause != nil {
		a := r.cause.Audit
		a.User, a.UserID, a.Project = r.Caller.User, r.Caller.UserID, r.Caller.Project
		if a.User == "" {
			a.User = r.Caller.Name()
		}
	}
}

// calls notes the method of a vendor's interface that a request names by an argument
// instead of in its path: without it the line would not say what was asked for. Other
// arguments are left out, as they may be secret.
func (r *Request) calls(route *Route) {
	if r.cause == nil || !strings.Contains(route.Path, "vendor_passthru") || r.Query["method"] == "" {
		return
	}
	a := r.cause.Audit
	a.Path = cut(a.Path+"?method="+url.QueryEscape(r.Query["method"]), maxRecordedPath)
}

// concerns notes the node that a request has found.
func (r *Request) concerns(n *store.Node) {
	if r.cause == nil || r.cause.Recorded() || n == nil {
		return
	}
	a := r.cause.Audit
	if a.Node = n.UUID; a.Resource == "node" && len(r.params) > 0 {
		a.Object = n.UUID
	}
}

// end records how a request has ended; it is called before the client hears of it.
func (s *Server) end(r *Request, status int, err error) {
	if r.cause == nil || s.Audit == nil {
		return
	}
	if r.stranger.is && status >= http.StatusBadRequest && !r.cause.Recorded() {
		s.endOfStranger(r, status, err)
		return
	}
	text := ""
	if err != nil {
		text = cut(wire.AsError(err).Text, maxRecordedError)
	}
	if r.cause.Audit.User == "" && !r.cause.Recorded() {
		r.asked()
	}
	s.Audit.Ended(r.Context(), r.cause, status, text)
}

// endOfStranger records that a request of a caller who is not known was refused: one of an address in a minute.
func (s *Server) endOfStranger(r *Request, status int, err error) {
	if s.strangers.MayRecord(r.stranger.from) {
		s.Audit.RefusedStranger(r.cause, status, cut(wire.AsError(err).Text, maxRecordedError))
	}
}

// resourceOf is what notifications call the resource that a path begins with: "node" of
// "nodes/{node}/states", "volumeconnector" of "volume/connectors".
func resourceOf(path string) string {
	parts := split(path)
	if len(parts) == 0 {
		return ""
	}
	name := parts[0]
	if name == "volume" && len(parts) > 1 {
		name += parts[1]
	}
	name = strings.ReplaceAll(name, "_", "")
	if name == "chassis" {
		return name
	}
	return strings.TrimSuffix(name, "s")
}

// cut bounds a text, at a character, and drops what is none.
func cut(text string, n int) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), n)], "\x00", ""), "")
}

// client is the address that a request comes from, for the audit.
func (s *Server) client(req *http.Request) string {
	if at := s.address(req); at.IsValid() {
		return at.String()
	}
	return ""
}

// address is where a request comes from: the address of the connection or, where it is a proxy's that the operator
// trusts, the last in X-Forwarded-For that is not.
func (s *Server) address(req *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := at.Addr().Unmap()
	if len(s.TrustedProxies) == 0 {
		return address.WithZone("")
	}
	hops := strings.Split(strings.Join(req.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !s.trusts(address) {
			break
		}
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		address = before.Unmap()
	}
	return address.WithZone("")
}

func (s *Server) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
}
