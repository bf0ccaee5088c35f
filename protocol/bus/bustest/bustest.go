// Package bustest runs a site's bus inside a test: nats-server in the process, with
// JetStream on disk. Only tests import it; it may import protocol/bus and protocol/permit.
package bustest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/permit"
)

// Server runs a server that keeps its streams in dir, until t ends or the returned
// function is called.
func Server(t testing.TB, dir string) (srv *server.Server, stop func()) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	stop = func() { srv.Shutdown(); srv.WaitForShutdown() }
	t.Cleanup(stop)
	return srv, stop
}

// Listen runs a server as Server does that listens on a port of loopback, server.RANDOM_PORT for any: who is
// connected to it comes back when another on that port takes its place.
func Listen(t testing.TB, dir string, port int) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return srv
}

// Connect connects to srv until t ends, and again whenever the connection is lost.
func Connect(t testing.TB, srv *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Open starts a server and opens the buses of its site.
func Open(t testing.TB) *bus.Site {
	t.Helper()
	srv, _ := Server(t, t.TempDir())
	site, err := bus.Open(t.Context(), Connect(t, srv), "", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// Fleet starts a server and opens the buses of its site twice: as somebody who may do everything, and
// as central, with no more permissions than a fleet's central has. That it is refused anything fails t.
func Fleet(t testing.TB) (site, central *bus.Site) {
	t.Helper()
	rules, err := permit.Central("site")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, Users: []*server.User{
		{Username: "site", Password: "x"},
		{Username: "central", Password: "x", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: permit.Subjects(rules.Publish)},
			Subscribe: &server.SubjectPermission{Allow: permit.Subjects(rules.Subscribe)}}}}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	open := func(user string, o ...nats.Option) *bus.Site {
		nc, err := nats.Connect("", append(o, nats.InProcessServer(srv), nats.UserInfo(user, "x"),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Errorf("%s: %v", user, err) }))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		s, err := bus.Open(t.Context(), nc, "", bus.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return open("site"), open("central", nats.CustomInboxPrefix(rules.Inbox))
}
