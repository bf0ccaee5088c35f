package outbound

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	refused := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}
	for address, want := range map[string]bool{
		"10.1.2.3:80": true, "[::ffff:10.1.2.3]:443": true, "169.254.169.254:80": true, "[fe80::1%eth0]:80": true,
		"10.2.0.1:80": false, "[2001:db8::1]:80": false, "127.0.0.1:80": false,
	} {
		_, got := errors.AsType[*RefusedError](check(refused, address))
		if got != want {
			t.Errorf("%s: refused %v, want %v", address, got, want)
		}
	}
	if err := check(nil, "10.1.2.3:80"); err != nil {
		t.Errorf("without networks: %v", err)
	}
}

// Neither a name nor a redirect leads there, and nothing is asked.
func TestClient(t *testing.T) {
	asked := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer srv.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	c := Client([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")})
	for _, url := range []string{srv.URL, "http://localhost:" + port} {
		_, err := c.Get(url)
		if _, refused := errors.AsType[*RefusedError](err); !refused || !strings.Contains(err.Error(), "--no-fetch-from") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if asked {
		t.Error("a server was asked that nothing is fetched from")
	}
	if res, err := Client(nil).Get(srv.URL); err != nil || res.StatusCode != http.StatusOK || !asked {
		t.Errorf("without networks: %v", err)
	}
}
