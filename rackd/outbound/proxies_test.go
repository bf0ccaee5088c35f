package outbound

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A node's proxies take the place of the environment's, and its exceptions are kept to.
func TestThrough(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.RequestURI)
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		io.WriteString(w, "by proxy")
	}))
	defer proxy.Close()
	c := Client(Fetching{Allowed: networks("127.0.0.0/8")})
	defer c.CloseIdleConnections()
	at := strings.TrimPrefix(proxy.URL, "http://")
	ctx := Through(t.Context(), Proxies{HTTP: at, HTTPS: proxy.URL, No: ".example.org,plain.invalid"})
	get := func(url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	if err := get("http://images.invalid/i?x=1"); err != nil {
		t.Error(err)
	}
	if err := get("https://images.invalid/i"); err == nil {
		t.Error("a proxy that refuses is gone around")
	}
	if err := get("http://plain.invalid/i"); err == nil {
		t.Error("a host that does not exist answers")
	}
	if got, want := strings.Join(asked, ", "), "GET http://images.invalid/i?x=1, CONNECT images.invalid:443"; got != want {
		t.Errorf("the proxy was asked %q, want %q", got, want)
	}
	// What may not be dialled may not be a proxy either.
	strict := Client(Fetching{})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://images.invalid/i", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := strict.Do(req); err == nil || !refused(err) {
		if err == nil {
			res.Body.Close()
		}
		t.Errorf("a proxy on this machine: %v", err)
	}
}
