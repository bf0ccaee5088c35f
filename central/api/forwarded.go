package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// base is what links begin with: the public endpoint, else what the client has asked for as
// a trusted proxy tells it, else what this server was asked for.
func (s *Server) base(req *http.Request) string {
	if s.PublicEndpoint != "" {
		return strings.TrimRight(s.PublicEndpoint, "/")
	}
	return s.askedFor(req)
}

// askedFor is base without a public endpoint.
func (s *Server) askedFor(req *http.Request) string {
	scheme, host, prefix := "http", req.Host, ""
	if here, ok := req.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && host == "" { // HTTP/1.0
		host = here.String()
	}
	if req.TLS != nil {
		scheme = "https"
	}
	if s.behindProxy(req) {
		f := forwarded(req.Header)
		if f.proto == "http" || f.proto == "https" {
			scheme = f.proto
		}
		if bareHost(f.host) {
			host = f.host
		}
		prefix = f.prefix
	}
	return scheme + "://" + host + prefix
}

// behindProxy reports whether the request's connection is a trusted proxy's.
func (s *Server) behindProxy(req *http.Request) bool {
	if len(s.TrustedProxies) == 0 {
		return false
	}
	at, err := netip.ParseAddrPort(req.RemoteAddr)
	return err == nil && s.trusts(at.Addr().Unmap())
}

// asked is what a client has asked the first of the proxies for.
type asked struct{ proto, host, prefix string }

// forwarded reads it from the header Forwarded (RFC 7239), or, without that, from the
// X-Forwarded headers; of several values the first is the outermost proxy's.
func forwarded(h http.Header) asked {
	first := func(name string) string {
		v, _, _ := strings.Cut(h.Get(name), ",")
		return strings.TrimSpace(v)
	}
	a := asked{proto: first("X-Forwarded-Proto"), host: first("X-Forwarded-Host")}
	if element := first("Forwarded"); element != "" {
		a = asked{}
		for pair := range strings.SplitSeq(element, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			value = strings.Trim(value, `"`)
			switch strings.ToLower(name) {
			case "proto":
				a.proto = value
			case "host":
				a.host = value
			}
		}
	}
	a.proto = strings.ToLower(a.proto)
	if p := strings.TrimRight(first("X-Forwarded-Prefix"), "/"); strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "//") {
		a.prefix = (&url.URL{Path: p}).EscapedPath()
	}
	return a
}

// bareHost reports whether text is a host, maybe with a port, and nothing else.
func bareHost(text string) bool {
	u, err := url.Parse("http://" + text)
	return err == nil && text != "" && u.Host == text && u.User == nil && u.Hostname() != ""
}
