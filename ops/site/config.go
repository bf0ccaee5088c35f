package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/jwt/v2"

	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

// ConfigFile is the configuration's name in the folder.
const ConfigFile = "nats-server.conf"

// WriteConfig writes the configuration of the folder's server and returns its path.
// The file holds the cluster's password.
func WriteConfig(m *membership.Member, listen string) (string, error) {
	text, err := config(m, listen)
	if err != nil {
		return "", err
	}
	path := m.Path(ConfigFile)
	return path, secretfile.Write(path, []byte(text))
}

// config is the configuration as text.
func config(m *membership.Member, listen string) (string, error) {
	if m.Scope.Role == join.Rackd {
		return "", errNoServer
	}
	trust, err := m.Trust()
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(m.Dir)
	if err != nil {
		return "", err
	}
	at, err := join.ParseAddress(m.Scope.Address)
	if err != nil {
		return "", err
	}
	c := &composer{member: m, trust: trust, dir: dir, at: at.On(listen)}
	c.line("# %s. Written by ironyard; changes are lost at the next renewal.", m.Scope)
	c.line("server_name: %q", m.Scope.Name)
	c.line("listen: %q", c.at.Client())
	c.line("max_payload: 8MB")
	// A party's credentials come in one line, with all that it may do.
	c.line("max_control_line: 64KB")
	// A link whose packets vanish is dialled again after this, and not when TCP's
	// patience ends.
	c.line("ping_interval: \"5s\"")
	c.line("ping_max: 2")
	c.line("tls { %s }", c.tls(membership.IdentityFile))
	c.line("operator: %q", trust.Operator)
	if m.Scope.Role == join.Hub {
		c.hub()
	} else {
		c.site()
	}
	return c.text.String(), c.err
}

// composer writes a configuration, line by line.
type composer struct {
	text   strings.Builder
	err    error
	member *membership.Member
	trust  join.Trust
	dir    string
	at     join.Address // to listen on
}

func (c *composer) line(format string, args ...any) { fmt.Fprintf(&c.text, format+"\n", args...) }

func (c *composer) path(file string) string { return filepath.Join(c.dir, file) }

func (c *composer) tls(file string, more ...string) string {
	return fmt.Sprintf("cert_file: %q, key_file: %q, ca_file: %q, timeout: 5, verify: true%s",
		c.path(file), c.path(file), c.path(membership.FleetFile), strings.Join(more, ""))
}

// account returns the name of the account that a JWT is of.
func (c *composer) account(text string) string {
	claims, err := jwt.DecodeAccountClaims(text)
	if err != nil {
		c.err = fmt.Errorf("an account that central sent: %w", err)
		return ""
	}
	return claims.Subject
}

// hub has no streams; it routes. It learns of sites' accounts from central.
func (c *composer) hub() {
	c.line("resolver: { type: full, dir: %q, allow_delete: false, interval: \"2m\" }", c.path("accounts"))
	c.line("resolver_preload: { %s: %q }", c.account(c.trust.System), c.trust.System)
	c.line("leafnodes { listen: %q, tls { %s } }", c.at.Leaf(), c.tls(membership.IdentityFile))
	c.cluster("hub")
}

// site keeps the site's streams and dials the hub.
func (c *composer) site() {
	account := c.account(c.trust.Site)
	c.line("resolver: MEMORY")
	c.line("resolver_preload: { %s: %q, %s: %q, %s: %q }", c.account(c.trust.System), c.trust.System, account, c.trust.Site,
		c.account(c.trust.Rackds), c.trust.Rackds)
	// An acknowledged write survives a power cut.
	c.line("jetstream { store_dir: %q, domain: %q, sync_interval: always }", c.path("jetstream"), c.member.Scope.Site)
	if hubs := c.urls("tls://", c.member.Hubs, join.Address.Leaf); hubs != nil {
		c.line("leafnodes { remotes: [ { urls: [%s], account: %q, credentials: %q, tls { %s } } ] }", strings.Join(hubs, ", "),
			account, c.path(membership.CredentialsFile), c.tls(membership.IdentityFile))
	}
	c.cluster(c.member.Scope.Site)
}

// cluster is nothing for a server that is alone. Its TLS is of a key that the others know. A
// server dials with the cluster's old password, too, while others may not have the new one.
func (c *composer) cluster(name string) {
	if !clustered(c.member) {
		return
	}
	servers := cluster(c.member)
	var routes []string
	for _, password := range []string{c.trust.ClusterPassword, c.trust.ClusterPasswordBefore} {
		if password != "" {
			routes = append(routes, c.urls("tls://"+name+":"+password+"@", servers, join.Address.Cluster)...)
		}
	}
	tls := c.tls(membership.IdentityFile)
	if _, err := os.Stat(c.path(membership.RouteFile)); err == nil {
		tls = c.tls(membership.RouteFile, c.pins())
	} else if !errors.Is(err, fs.ErrNotExist) {
		c.err = err
	}
	c.line("cluster { name: %q, listen: %q, authorization { user: %q, password: %q, timeout: 5 }, tls { %s }, routes: [%s] }",
		name, c.at.Cluster(), name, c.trust.ClusterPassword, tls, strings.Join(routes, ", "))
}

// cluster returns the addresses of the servers of a server's cluster, its own among them.
func cluster(m *membership.Member) []string {
	if m.Scope.Role == join.Hub {
		return m.Hubs
	}
	return m.Servers
}

func clustered(m *membership.Member) bool { return len(cluster(m)) > 1 }

// pins is the list of the keys that count in the cluster, as a setting of its TLS.
func (c *composer) pins() string {
	if len(c.trust.RouteKeys) == 0 {
		return ""
	}
	return fmt.Sprintf(", pinned_certs: [\"%s\"]", strings.Join(c.trust.RouteKeys, `", "`))
}

// urls are quoted; at says which port of a server.
func (c *composer) urls(scheme string, servers []string, at func(join.Address) string) (list []string) {
	for _, s := range servers {
		a, err := join.ParseAddress(s)
		if err != nil {
			c.err = fmt.Errorf("a server that central named: %w", err)
			continue
		}
		list = append(list, fmt.Sprintf("%q", scheme+at(a)))
	}
	return list
}
