package api

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// Who does not say for whom the request is (HTTP/1.0) gets links to the address that was connected to.
func TestLinksWithoutAHost(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.server.PublicEndpoint = ""
	here := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:6385"))
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(here)), "GET", "/v1/nodes/n1?fields=uuid", nil)
	r.Host = ""
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	if want := `"href":"http://192.0.2.7:6385/v1/nodes/` + nodeID + `"`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("answered %s, want %s", w.Body, want)
	}
}

// Links begin with what the client has asked its proxy for, if that is one to be believed.
func TestLinksBehindAProxy(t *testing.T) {
	t.Parallel()
	const direct = "http://ironyard.example:6385"
	for name, c := range map[string]struct {
		headers []string
		trusted string
		want    string
	}{
		"none":              {trusted: "0.0.0.0/0", want: direct},
		"not trusted":       {[]string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example"}, "203.0.113.0/24", direct},
		"nobody trusted":    {[]string{"X-Forwarded-Proto", "https"}, "", direct},
		"proto":             {[]string{"X-Forwarded-Proto", "HTTPS"}, "0.0.0.0/0", "https://ironyard.example:6385"},
		"proto and host":    {[]string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example"}, "0.0.0.0/0", "https://api.example"},
		"prefix":            {[]string{"X-Forwarded-Host", "api.example:8443", "X-Forwarded-Prefix", "/baremetal/"}, "0.0.0.0/0", "http://api.example:8443/baremetal"},
		"of two proxies":    {[]string{"X-Forwarded-Proto", "https, http", "X-Forwarded-Host", "outer.example, inner.example"}, "0.0.0.0/0", "https://outer.example"},
		"RFC 7239":          {[]string{"Forwarded", `for=192.0.2.1;proto=https;host="api.example:8443", for=198.51.100.1`, "X-Forwarded-Host", "other.example"}, "0.0.0.0/0", "https://api.example:8443"},
		"no scheme":         {[]string{"X-Forwarded-Proto", "javascript"}, "0.0.0.0/0", direct},
		"no host":           {[]string{"X-Forwarded-Host", `a.example/x"`}, "0.0.0.0/0", direct},
		"somebody's host":   {[]string{"X-Forwarded-Host", `user@a.example`}, "0.0.0.0/0", direct},
		"prefix is a host":  {[]string{"X-Forwarded-Prefix", `//a.example`}, "0.0.0.0/0", direct},
		"prefix is escaped": {[]string{"X-Forwarded-Prefix", `/a"b`}, "0.0.0.0/0", direct + "/a%22b"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.addNode()
			b.server.PublicEndpoint = ""
			if c.trusted != "" {
				b.server.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(c.trusted)}
			}
			a := b.do("GET", "/v1/nodes/n1?fields=uuid", "1.115", "", c.headers...)
			if want := `"href":"` + c.want + "/v1/nodes/" + nodeID + `"`; !strings.Contains(a.body, want) {
				t.Errorf("answered %s, want %s", a.body, want)
			}
		})
	}
	b := newBench(t)
	b.server.PublicEndpoint = ""
	b.server.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	a := b.do("POST", "/v1/chassis", "1.115", "{}", "X-Forwarded-Prefix", "/bm")
	if l := a.Header.Get("Location"); !strings.HasPrefix(l, "http://ironyard.example:6385/bm/v1/chassis/") {
		t.Errorf("Location %s", l)
	}
}
