package site

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

// copyOf copies a member's folder, so that a test can spoil it.
func copyOf(t *testing.T, m *membership.Member) *membership.Member {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(m.Dir)); err != nil {
		t.Fatal(err)
	}
	c, err := membership.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func swap(t *testing.T, to, from *membership.Member, file string) {
	t.Helper()
	text, err := os.ReadFile(from.Path(file))
	if err == nil {
		err = os.WriteFile(to.Path(file), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhoIsNotLetOntoASitesBus(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	site := f.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: loopback()})
	f.serve(site)
	good := f.join(join.Scope{Role: join.Rackd, Site: "east", Name: "a1", Group: "rack-a"})
	// What the same fleet granted long ago.
	past, err := enrol.Open(t.Context(), f.store, f.key, func() time.Time { return time.Now().Add(-200 * 24 * time.Hour) })
	if err != nil {
		t.Fatal(err)
	}
	before := &fleet{t: t, key: f.key, store: f.store, authority: past, log: f.log}
	before.central.URL = f.listenAs(past, f.authority)
	expired := before.join(join.Scope{Role: join.Rackd, Site: "east", Name: "a2", Group: "rack-a"})
	expired.Servers = good.Servers
	stranger := newFleet(t)
	stranger.serve(stranger.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: loopback()}))
	foreign := stranger.join(join.Scope{Role: join.Rackd, Site: "east", Name: "a1", Group: "rack-a"})
	west := f.join(join.Scope{Role: join.Rackd, Site: "west", Name: "w1", Group: "rack-w"})
	hubless := f.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-2", Address: loopback()})

	dial := func(m *membership.Member, more ...nats.Option) error {
		m.Servers = good.Servers
		own, err := m.BusOptions()
		if err != nil {
			t.Fatal(err)
		}
		nc, err := nats.Connect(m.BusURL(), append(append(own, quiet, patient), more...)...)
		if err == nil {
			nc.Close()
		}
		return err
	}
	if err := dial(good); err != nil {
		t.Fatalf("a rackd of the site: %v", err)
	}
	roots := func(m *membership.Member) *x509.CertPool {
		c, err := m.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return c.RootCAs
	}
	oldCertificate, oldCredentials, foreignCertificate, foreignCredentials, leafs := copyOf(t, good), copyOf(t, good), copyOf(t, good), copyOf(t, good), copyOf(t, good)
	swap(t, oldCertificate, expired, membership.IdentityFile)
	swap(t, oldCredentials, expired, membership.CredentialsFile)
	swap(t, foreignCertificate, foreign, membership.IdentityFile)
	swap(t, foreignCredentials, foreign, membership.CredentialsFile)
	swap(t, leafs, hubless, membership.CredentialsFile)
	const tlsSays, natsSays = "tls", "authorization violation"
	for _, c := range []struct {
		what, says string
		err        error
	}{
		{"without a certificate", tlsSays, dial(good, nats.Secure(&tls.Config{RootCAs: roots(good)}))},
		{"with a certificate of another fleet", tlsSays, dial(foreignCertificate)},
		{"with a certificate that has expired", tlsSays, dial(oldCertificate)},
		{"with a certificate alone", natsSays, dial(good, func(o *nats.Options) error { o.UserJWT, o.SignatureCB = nil, nil; return nil })},
		{"with credentials that have expired", natsSays, dial(oldCredentials)},
		{"with credentials of another fleet", natsSays, dial(foreignCredentials)},
		{"with credentials of another site", natsSays, dial(west)},
		{"with a server's credentials for the hub", natsSays, dial(leafs)},
		{"as a member of another fleet", "unknown authority", dial(foreign)},
	} {
		if c.err == nil || !strings.Contains(strings.ToLower(c.err.Error()), c.says) {
			t.Errorf("%s: %v, want an error that says %q", c.what, c.err, c.says)
		}
	}
}

// A member that was revoked is put off the bus when the site's server renews.
func TestRevokedMemberIsPutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	site := f.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: loopback()})
	ctx := t.Context()
	path, err := WriteConfig(site, site.Scope.Address)
	if err != nil {
		t.Fatal(err)
	}
	b := startFile(t, path, f.log)
	conns := map[string]*nats.Conn{}
	for _, name := range []string{"a1", "a2"} {
		conns[name] = f.connect(f.join(join.Scope{Role: join.Rackd, Site: "east", Name: name, Group: "rack-a"}), nats.NoReconnect())
	}
	if err := f.authority.RevokeMember(ctx, join.Rackd, "a1"); err != nil {
		t.Fatal(err)
	}
	if changed, err := site.Renew(ctx); err != nil || !changed {
		t.Fatalf("renewal: changed %t, %v", changed, err)
	}
	if err := reload(site, site.Scope.Address, b); err != nil {
		t.Fatal(err)
	}
	until(t, conns["a1"].IsClosed)
	if err := conns["a2"].FlushTimeout(5 * time.Second); err != nil {
		t.Errorf("the other rackd is put off too: %v", err)
	}
}

// Three servers of a site are one; a rackd's certificate does not make it a fourth.
func TestCluster(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	peers := []string{loopback(), loopback(), loopback()}
	var members []*membership.Member
	for i, p := range peers {
		members = append(members, f.join(join.Scope{Role: join.Bus, Site: "east", Name: fmt.Sprint("east-", i), Address: p, Peers: peers}))
	}
	for _, m := range members {
		if len(m.Servers) != 3 {
			t.Fatalf("%s knows of %q", m.Scope, m.Servers)
		}
		f.serve(m)
	}
	s := f.open(f.asCentral("east", peers[1]), "east", bus.Settings{Replicas: 3})
	info, err := s.Events.Info(t.Context())
	if err != nil || info.Cluster == nil || len(info.Cluster.Replicas) != 2 {
		t.Errorf("events have not three replicas: %+v, %v", info, err)
	}
	r := f.join(join.Scope{Role: join.Rackd, Site: "east", Name: "a1", Group: "rack-a"})
	f.open(f.connect(r), "", bus.Settings{OpenOnly: true})
	config, err := r.TLS()
	if err != nil {
		t.Fatal(err)
	}
	for _, credentials := range []string{"", `,"user":"east","pass":"guess"`} {
		answer := asRoute(t, peers[0], config, credentials)
		if answer != "" { // its key is none of the cluster's: it is not listened to
			t.Errorf("a rackd that poses as a server (%s) is told %q", credentials, answer)
		}
	}
}

// asRoute speaks to a cluster port as a server would, and returns what is said until
// the connection ends.
func asRoute(t *testing.T, host string, config *tls.Config, credentials string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, membership.ClusterPort), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	config = config.Clone()
	config.ServerName = host
	// A server that accepts a route says INFO inside TLS.
	secure := tls.Client(conn, config)
	if err := secure.Handshake(); err != nil {
		t.Fatalf("TLS with the cluster port: %v", err)
	}
	if _, err := fmt.Fprintf(secure, "CONNECT {\"verbose\":false,\"tls_required\":true,\"name\":\"evil\",\"cluster\":\"east\"%s}\r\nINFO {\"server_id\":\"evil\",\"cluster\":\"east\"}\r\nPING\r\n", credentials); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(bufio.NewReader(secure)) // the server ends it
	return string(said)
}
