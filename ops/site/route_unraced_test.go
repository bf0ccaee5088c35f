//go:build !race

// nats-server 2.15 itself reads its folder of accounts without a lock when it is reloaded.

package site

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

// routed is a real server of a member's folder.
type routed struct {
	t      *testing.T
	member *membership.Member
	server *server.Server
	// refused counts routes that others wanted and did not get.
	refused atomic.Int64
}

func (r *routed) Noticef(string, ...any) {}
func (r *routed) Warnf(string, ...any)   {}
func (r *routed) Fatalf(string, ...any)  {}
func (r *routed) Debugf(string, ...any)  {}
func (r *routed) Tracef(string, ...any)  {}
func (r *routed) Errorf(f string, a ...any) {
	if strings.Contains(fmt.Sprintf(f, a...), server.ErrCertNotPinned.Error()) {
		r.refused.Add(1)
	}
}

// start runs the server as its folder's configuration has it.
func (r *routed) start() {
	r.t.Helper()
	o, err := server.ProcessConfigFile(r.member.Path(ConfigFile))
	if err != nil {
		r.t.Fatal(err)
	}
	o.NoSigs = true
	if r.server, err = server.NewServer(o); err != nil {
		r.t.Fatal(err)
	}
	r.server.SetLoggerV2(r, false, false, false)
	r.server.Start()
	if !r.server.ReadyForConnections(20 * time.Second) {
		r.t.Fatalf("the server of %s is not ready", r.member.Scope)
	}
	r.t.Cleanup(r.stop)
}

func (r *routed) stop() {
	r.server.Shutdown()
	r.server.WaitForShutdown()
}

// configure writes the configuration of the folder as it is.
func (r *routed) configure() {
	r.t.Helper()
	if _, err := WriteConfig(r.member, r.member.Scope.Address); err != nil {
		r.t.Fatal(err)
	}
}

// renew renews the folder and has the server take up what that brought.
func (r *routed) renew() {
	r.t.Helper()
	if _, err := r.member.Renew(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.configure()
	if err := r.server.Reload(); err != nil {
		r.t.Fatalf("reload of %s: %v", r.member.Scope, err)
	}
}

// cluster is three servers that have found each other.
func (f *fleet) cluster(scope join.Scope) (all [3]*routed) {
	f.t.Helper()
	peers := []string{loopback(), loopback(), loopback()}
	for i, p := range peers {
		s := scope
		s.Name, s.Address, s.Peers = fmt.Sprint(scope.Name, i), p, peers
		all[i] = &routed{t: f.t, member: f.join(s)}
	}
	for _, r := range all {
		if _, err := r.member.Renew(f.t.Context()); err != nil { // now all have joined
			f.t.Fatal(err)
		}
		r.configure()
	}
	for _, r := range all {
		r.start()
	}
	for _, r := range all {
		until(f.t, func() bool { return r.server.NumRemotes() == 2 })
	}
	return all
}

// A server that was revoked gets no route, with all that its folder holds, and the cluster does
// not suffer.
func TestRevokedServerGetsNoRoute(t *testing.T) {
	t.Parallel()
	t.Run("of a site", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		all := f.cluster(join.Scope{Role: join.Bus, Site: "east", Name: "east-"})
		s := f.open(f.asCentral("east", all[0].member.Scope.Address), "east", bus.Settings{Replicas: 3})
		revokedServerGetsNoRoute(f, all, "east", func(t *testing.T, when string) {
			t.Helper()
			until(t, func() bool { _, err := s.Work.PutString(t.Context(), "rack-a.n1", when); return err == nil })
		})
	})
	t.Run("of the hub", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		revokedServerGetsNoRoute(f, f.cluster(join.Scope{Role: join.Hub, Name: "hub-"}), "hub", func(*testing.T, string) {})
	})
}

func revokedServerGetsNoRoute(f *fleet, all [3]*routed, cluster string, works func(*testing.T, string)) {
	t, a, b, c := f.t, all[0], all[1], all[2]
	works(t, "before")
	thief := &routed{t: t, member: copyOf(t, c.member)}
	if err := f.authority.RevokeMember(t.Context(), c.member.Scope.Role, c.member.Scope.Name); err != nil {
		t.Fatal(err)
	}
	a.renew()
	works(t, "while one knows of it")
	// Until the other has renewed, each of the two finds the other again after a restart.
	for _, r := range []*routed{a, b} {
		r.stop()
		r.start()
		until(t, func() bool { return a.server.NumRemotes() >= 1 && b.server.NumRemotes() == 2 })
	}
	b.renew()
	until(t, func() bool { return a.server.NumRemotes() == 1 && b.server.NumRemotes() == 1 })
	works(t, "when both know")
	c.stop()

	// The revoked server's folder, as it was: a server dials again and again and gets nowhere.
	a.refused.Store(0)
	b.refused.Store(0)
	thief.configure()
	thief.start()
	until(t, func() bool { return a.refused.Load() >= 3 && b.refused.Load() >= 3 })
	if n := thief.server.NumRemotes(); n != 0 {
		t.Errorf("a revoked server has routes to %d servers", n)
	}
	old, err := thief.member.Trust()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*routed{a, b} {
		now, err := r.member.Trust()
		if err != nil {
			t.Fatal(err)
		}
		if now.ClusterPassword == old.ClusterPassword {
			t.Errorf("%s still has the password that the revoked server knows", r.member.Scope)
		}
		for _, file := range []string{membership.IdentityFile, membership.RouteFile} {
			// Even with the password that is new: its key is known.
			for _, password := range []string{old.ClusterPassword, now.ClusterPassword} {
				if answer, err := dialRoute(thief.member, file, r.member.Scope.Address, cluster, password); err == nil && answer != "" {
					t.Errorf("%s listens to the revoked server's %s: %q", r.member.Scope, file, answer)
				}
			}
		}
		// And a member's key without the password opens nothing either.
		other := a
		if r == a {
			other = b
		}
		if answer, err := dialRoute(other.member, membership.RouteFile, r.member.Scope.Address, cluster, old.ClusterPassword); err != nil || !strings.Contains(answer, "Authorization Violation") {
			t.Errorf("%s is told with the old password: %q, %v", other.member.Scope, answer, err)
		}
		if answer, err := dialRoute(other.member, membership.RouteFile, r.member.Scope.Address, cluster, now.ClusterPassword); err != nil || !strings.Contains(answer, "INFO") || strings.Contains(answer, "-ERR") {
			t.Errorf("this test dials no route even as a member: %q, %v", answer, err)
		}
	}
	works(t, "while a thief knocks")
	// The routes that this test dialled have ended; that between the two has not.
	until(t, func() bool { return a.server.NumRemotes() == 1 && b.server.NumRemotes() == 1 })
}

// dialRoute speaks to a cluster port as a server does, and shows a file of m's folder. It returns what the other
// says until that one ends the connection or has answered.
func dialRoute(m *membership.Member, file, host, cluster, password string) (string, error) {
	config, err := m.TLS()
	if err != nil {
		return "", err
	}
	pair, err := tls.LoadX509KeyPair(m.Path(file), m.Path(file))
	if err != nil {
		return "", err
	}
	config.ServerName, config.GetClientCertificate, config.Certificates = host, nil, []tls.Certificate{pair}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, membership.ClusterPort), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	secure := tls.Client(conn, config)
	if err := secure.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(secure, "CONNECT {\"verbose\":false,\"tls_required\":true,\"name\":\"evil\",\"cluster\":%q,\"user\":%q,\"pass\":%q}\r\n"+
		"INFO {\"server_id\":\"evil\",\"cluster\":%q}\r\nPING\r\n", cluster, cluster, password, cluster); err != nil {
		return "", err
	}
	var said strings.Builder
	lines := bufio.NewScanner(secure)
	for lines.Scan() {
		if said.WriteString(lines.Text() + "\n"); strings.HasPrefix(lines.Text(), "PONG") {
			break
		}
	}
	if said.Len() == 0 {
		return "", lines.Err()
	}
	return said.String(), nil // it may reset the connection afterwards
}
