package daemon

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
)

// anyHost among Config.Hosts takes every name.
const anyHost = "*"

// localNames are those that hosts files give to loopback.
var localNames = []string{"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}

// addressed guards an API that serves everybody on loopback against pages in browsers of
// this machine: a page of evil.example, whose name its owner lets lead to 127.0.0.1 (DNS
// rebinding), is of the API's own origin to the browser, but not to who looks at Host.
// Addresses are not names, so that they are taken, whichever they are.
type addressed struct {
	http.Handler
	names []string // in lower case
}

// guardHosts wraps the API's handler where it has to be guarded.
func guardHosts(cfg *Config, h http.Handler) http.Handler {
	local, _ := loopback(cfg.Listen) // checked before
	if !cfg.Access.open() || !local && len(cfg.Hosts) == 0 || slices.Contains(cfg.Hosts, anyHost) {
		return h
	}
	names := slices.Clone(localNames)
	for _, name := range cfg.Hosts {
		names = append(names, bareName(name))
	}
	if u, err := url.Parse(cfg.PublicEndpoint); err == nil && u.Hostname() != "" {
		names = append(names, bareName(u.Hostname()))
	}
	return &addressed{Handler: h, names: names}
}

// ServeHTTP implements http.Handler.
func (a *addressed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.known(r.Host) {
		a.Handler.ServeHTTP(w, r)
		return
	}
	e := wire.Errorf(http.StatusForbidden, "This API has no authentication, so it answers only under names that it knows: %q is not one of them. "+
		"Use an IP address or localhost, or start central with --host %s (or --public-endpoint).", r.Host, bareName(hostOnly(r.Host)))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		w.Write(e.Body()) // the client is gone when it fails
	}
}

// known reports whether the header Host, with or without a port, is an address or one of
// the names. No browser leaves it out.
func (a *addressed) known(host string) bool {
	host = hostOnly(host)
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return true
	}
	host = bareName(host)
	return strings.HasSuffix(host, ".localhost") || slices.Contains(a.names, host)
}

// hostOnly cuts a port and brackets off.
func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func bareName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// checkHost refuses what no client's Host could be.
func checkHost(name string) error {
	if name != anyHost && (name == "" || strings.ContainsAny(name, "/:*@ ")) {
		return fmt.Errorf("--host %q: want a name without scheme and port, or %s for all names", name, anyHost)
	}
	return nil
}
