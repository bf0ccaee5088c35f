package site

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/jwt/v2"

	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
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
	return path, os.WriteFile(path, []byte(text), 0o600)
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
	c := &composer{member: m, trust: trust, dir: dir, listen: listen}
	c.line("# %s. Written by ironyard; changes are lost at the next renewal.", m.Scope)
	c.line("server_name: %q", m.Scope.Name)
	c.line("listen: %q", net.JoinHostPort(listen, membership.ClientPort))
	c.line("max_payload: 8MB")
	// A party's credentials come in one line, with all that it may do.
	c.line("max_control_line: 64KB")
	// A link whose packets vanish is dialled again after this, and not when TCP's
	// patience ends.
	c.line("ping_interval: \"5s\"")
	c.line("ping_max: 2")
	c.line("tls { %s }", c.tls("verify: true"))
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
	listen string
}

func (c *composer) line(format string, args ...any) { fmt.Fprintf(&c.text, format+"\n", args...) }

func (c *composer) path(file string) string { return filepath.Join(c.dir, file) }

func (c *composer) tls(more string) string {
	return fmt.Sprintf("cert_file: %q, key_file: %q, ca_file: %q, timeout: 5, %s",
		c.path(membership.IdentityFile), c.path(membership.IdentityFile), c.path(membership.FleetFile), more)
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
	c.line("leafnodes { listen: %q, tls { %s } }", net.JoinHostPort(c.listen, membership.LeafPort), c.tls("verify: true"))
	c.cluster("hub", c.member.Hubs)
}

// site keeps the site's streams and dials the hub.
func (c *composer) site() {
	account := c.account(c.trust.Site)
	c.line("resolver: MEMORY")
	c.line("resolver_preload: { %s: %q, %s: %q, %s: %q }", c.account(c.trust.System), c.trust.System, account, c.trust.Site,
		c.account(c.trust.Rackds), c.trust.Rackds)
	// An acknowledged write survives a power cut.
	c.line("jetstream { store_dir: %q, domain: %q, sync_interval: always }", c.path("jetstream"), c.member.Scope.Site)
	if len(c.member.Hubs) > 0 {
		c.line("leafnodes { remotes: [ { urls: [%s], account: %q, credentials: %q, tls { %s } } ] }", urls("tls://", c.member.Hubs, membership.LeafPort),
			account, c.path(membership.CredentialsFile), c.tls("verify: true"))
	}
	c.cluster(c.member.Scope.Site, c.member.Servers)
}

// cluster is nothing for a server that is alone.
func (c *composer) cluster(name string, servers []string) {
	if len(servers) < 2 {
		return
	}
	c.line("cluster { name: %q, listen: %q, authorization { user: %q, password: %q, timeout: 5 }, tls { %s }, routes: [%s] }",
		name, net.JoinHostPort(c.listen, membership.ClusterPort), name, c.trust.ClusterPassword, c.tls("verify: true"),
		urls("tls://"+name+":"+c.trust.ClusterPassword+"@", servers, membership.ClusterPort))
}

func urls(scheme string, hosts []string, port string) string {
	var list []string
	for _, h := range hosts {
		list = append(list, fmt.Sprintf("%q", scheme+net.JoinHostPort(h, port)))
	}
	return strings.Join(list, ", ")
}
