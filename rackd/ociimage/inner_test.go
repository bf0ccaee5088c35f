package ociimage

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/rackd/outbound"
)

// at serves h at an address of this machine.
func at(t *testing.T, address string, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	var err error
	if s.Listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", address+":0"); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// Who names the registry names all that it leads to: its token server, which is asked before any image is, and the place of a file. None
// is asked at an address that nothing is fetched from, and what an inner server would have told goes to no registry.
func TestARegistryLeadsToNoInnerAddress(t *testing.T) {
	var asked atomic.Int32
	inner := at(t, "127.0.0.3", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		io.WriteString(w, `{"token":"of the inner server"}`)
	})
	var way atomic.Value
	var given atomic.Value
	given.Store("")
	digest := "sha256:" + strings.Repeat("ab", 32)
	registry := at(t, "127.0.0.2", func(w http.ResponseWriter, r *http.Request) {
		if a := r.Header.Get("Authorization"); strings.Contains(a, "inner") {
			given.Store(a)
		}
		switch way.Load() {
		case "realm":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+inner.URL+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		case "redirected realm":
			if strings.HasPrefix(r.URL.Path, "/token") {
				http.Redirect(w, r, inner.URL+"/token", http.StatusTemporaryRedirect)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.Redirect(w, r, inner.URL+"/", http.StatusTemporaryRedirect)
		}
	})
	host := strings.TrimPrefix(registry.URL, "http://")
	web := outbound.Client(outbound.Fetching{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	t.Cleanup(web.CloseIdleConnections)
	c := &Client{HTTP: web, Plain: []string{host}}
	for _, w := range []string{"realm", "redirected realm", "redirect"} {
		way.Store(w)
		for name, ask := range map[string]func() error{
			"manifest": func() error { _, err := c.Resolve(t.Context(), "oci://"+host+"/os:1", "", anywhere(basic)); return err },
			"file": func() error {
				_, _, err := c.Open(t.Context(), "oci://"+host+"/os@"+digest, anywhere(basic))
				return err
			},
		} {
			err := ask()
			if _, refused := errors.AsType[*outbound.RefusedError](err); !refused || asked.Load() != 0 || given.Load() != "" {
				t.Errorf("%s by %s: %v; the inner server was asked %d times, the registry was given %q", name, w, err, asked.Load(), given.Load())
			}
		}
	}
}
