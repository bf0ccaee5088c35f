// Package sitetest runs the sites of a fleet inside a test: a hub and the servers of sites that are
// linked to it, by links that can be cut. It may import protocol only.
package sitetest

import (
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Hub runs a hub until t ends: it routes, takes leaf links, and keeps nothing.
func Hub(t testing.TB) *server.Server {
	t.Helper()
	return run(t, &server.Options{ServerName: "hub", Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		// Sites come through their links only, not also by the address that a hub tells.
		LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: -1, NoAdvertise: true}})
}

// ownSubjects stay inside a site: in one account, the streams of one would store what
// is published to those of another. Central writes through the JetStream domain.
var ownSubjects = []string{"EVENTS.>", "$KV.>", "$O.>"}

// Leaf runs a site's server, whose JetStream domain is its name, and links it to a
// hub until t ends. The site dials.
func Leaf(t testing.TB, hub *server.Server, name, dir string) (*server.Server, *Link) {
	t.Helper()
	vars, err := hub.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	link := NewLink(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(vars.LeafNode.Port)))
	remote := &server.RemoteLeafOpts{URLs: []*url.URL{{Scheme: "nats-leaf", Host: link.Addr()}}, DenyImports: ownSubjects, DenyExports: ownSubjects}
	srv := run(t, &server.Options{ServerName: name, Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		JetStream: true, JetStreamDomain: name, StoreDir: dir,
		LeafNode: server.LeafNodeOpts{ReconnectInterval: 200 * time.Millisecond, Remotes: []*server.RemoteLeafOpts{remote}}})
	Linked(t, hub, name)
	return srv, link
}

func run(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatalf("nats-server %s is not ready", o.ServerName)
	}
	return srv
}

// Linked waits until a site is linked to its hub.
func Linked(t testing.TB, hub *server.Server, site string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		leafs, err := hub.Leafz(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leafs.Leafs {
			if l.Name == site {
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("site %s is not linked to its hub", site)
		}
	}
}

// Dial connects to a server over its listener until t ends, and again whenever the
// connection is lost.
func Dial(t testing.TB, srv *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
