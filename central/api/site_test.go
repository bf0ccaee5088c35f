package api

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// A page is of this site if its scheme, host and port are. One without TLS may come from who is on the way to an API with TLS.
func TestPagesOfTheSameSite(t *testing.T) {
	const proxy = "10.0.0.9:4000"
	for _, c := range []struct {
		origin, public, host, from, forwarded string
		secure, ok                            bool
	}{
		{origin: "https://api.example", host: "api.example", secure: true, ok: true},
		{origin: "https://api.example:443", host: "API.example", secure: true, ok: true},
		{origin: "https://api.example", host: "api.example:443", secure: true, ok: true},
		{origin: "http://api.example", host: "api.example", secure: true},
		{origin: "https://api.example:8443", host: "api.example", secure: true},
		{origin: "http://api.example:443", host: "api.example:443", secure: true},
		{origin: "http://api.example", host: "api.example", ok: true},
		{origin: "https://api.example", host: "api.example"},
		// behind a proxy that ends TLS
		{origin: "https://api.example", host: "api.example", from: proxy, forwarded: "https", ok: true},
		{origin: "http://api.example", host: "api.example", from: proxy, forwarded: "https"},
		{origin: "https://api.example", host: "api.example", from: "10.0.0.8:4000", forwarded: "https"},
		{origin: "https://api.example", public: "https://api.example/", host: "api.example", ok: true},
		{origin: "http://api.example", public: "https://api.example/", host: "api.example"},
		{origin: "http://api.example", public: "https://api.example/", host: "api.example:80"},
		// beside the public endpoint
		{origin: "http://10.0.0.1:6385", public: "https://api.example", host: "10.0.0.1:6385", ok: true},
		{origin: "https://10.0.0.1:6385", public: "https://api.example", host: "10.0.0.1:6385"},
		{origin: "http://evil.example", public: "https://api.example", host: "10.0.0.1:6385"},
		{origin: "null", host: "null"},
		{origin: "http:", host: "api.example"},
	} {
		s := &Server{Config: Config{PublicEndpoint: c.public, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/32")}}}
		req := &http.Request{Host: c.host, RemoteAddr: c.from, Header: http.Header{"Origin": {c.origin}}}
		if c.secure {
			req.TLS = &tls.ConnectionState{}
		}
		if c.forwarded != "" {
			req.Header.Set("X-Forwarded-Proto", c.forwarded)
		}
		err := s.sameOrigin(&Request{Request: req, Base: s.base(req)})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "another site") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
