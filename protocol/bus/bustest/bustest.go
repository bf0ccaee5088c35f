// Package bustest runs a site's bus inside a test: nats-server in the process, with
// JetStream on disk. Only tests import it; it may import protocol/bus.
package bustest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
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
