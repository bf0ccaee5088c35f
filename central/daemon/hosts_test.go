package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	here := []string{"127.0.0.1:6385", "127.0.0.1", "127.5.6.7:80", "localhost:6385", "LOCALHOST", "localhost.:6385", "[::1]:6385", "[::1]", "::1", "api.localhost:1",
		"10.77.0.1:6385", "[fe80::1%eth0]:6385", "ip6-localhost:6385", ""}
	strange := []string{"evil.example", "evil.example:6385", "localhost.evil.example:6385", "127.0.0.1.evil.example", "evil-localhost", "xlocalhost", "[evil.example]:1", "localhost:1:2"}
	basic := Access{Strategies: []string{"http_basic"}}
	for name, c := range map[string]struct {
		cfg           Config
		known, others []string
	}{
		"on loopback":              {Config{Listen: "127.0.0.1:0"}, here, strange},
		"on localhost":             {Config{Listen: "localhost:0"}, here, strange},
		"by IPv6":                  {Config{Listen: "[::1]:0"}, here, strange},
		"with noauth by name":      {Config{Listen: "127.0.0.1:0", Access: Access{Strategies: []string{"noauth"}}}, here, strange},
		"with names":               {Config{Listen: "127.0.0.1:0", Hosts: []string{"Ironic.Lab", "b.lab"}}, append(here, "ironic.lab", "IRONIC.lab.:80", "b.lab:1"), append(strange, "c.lab")},
		"behind a public endpoint": {Config{Listen: "127.0.0.1:0", PublicEndpoint: "https://Api.example:6385/x"}, append(here, "api.example"), strange},
		"under every name":         {Config{Listen: "127.0.0.1:0", Hosts: []string{"*"}}, append(here, strange...), nil},
		"with authentication":      {Config{Listen: "127.0.0.1:0", Access: basic}, append(here, strange...), nil},
		"elsewhere":                {Config{Listen: "10.77.0.1:0"}, append(here, strange...), nil},
		"elsewhere with names":     {Config{Listen: "10.77.0.1:0", Hosts: []string{"ironic.lab"}}, append(here, "ironic.lab:6385"), strange},
	} {
		h := guardHosts(&c.cfg, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		ask := func(host string, want int) {
			r := httptest.NewRequest("DELETE", "/v1/nodes/n1", nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want || want == http.StatusForbidden && !strings.Contains(w.Body.String(), "--host") {
				t.Errorf("%s: as %q: status %d, want %d: %s", name, host, w.Code, want, w.Body)
			}
		}
		for _, host := range c.known {
			ask(host, http.StatusNoContent)
		}
		for _, host := range c.others {
			ask(host, http.StatusForbidden)
		}
	}
}
