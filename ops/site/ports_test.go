package site

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

// A port that is taken ends the server, and says which port and which flag.
func TestPortsThatAreTaken(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, port := range []string{membership.ClientPort, membership.ClusterPort, membership.LeafPort} {
		host := loopback()
		m := f.join(join.Scope{Role: join.Hub, Name: "hub-" + port, Address: host, Peers: []string{host, loopback()}})
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err = Serve(ctx, Options{Dir: m.Dir, Listen: host, Log: f.log}, nil)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), host+":"+port) || !strings.Contains(err.Error(), "--listen") {
			t.Errorf("port %s is taken: %v (%v), want an error that names it and the flag", port, err, ctx.Err())
		}
		cancel()
		l.Close()
		if err := f.authority.RevokeMember(t.Context(), join.Hub, m.Scope.Name); err != nil {
			t.Fatal(err)
		}
	}
}

// A hub's server and a site's share a host where their addresses name ports.
func TestHubAndSiteOnOneHost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	host := loopback()
	hub := f.join(join.Scope{Role: join.Hub, Name: "hub-1", Address: host})
	f.serveOn(hub, host)
	f.push(hub)
	site := f.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: host + ":5222"})
	f.serveOn(site, host)
	f.open(f.asCentral("east", host), "east", bus.Settings{Replicas: 1}) // through the hub, over the link
	r := f.join(join.Scope{Role: join.Rackd, Site: "east", Name: "a1", Group: "rack-a"})
	if want := "tls://" + host + ":5222"; r.BusURL() != want {
		t.Errorf("the rackd connects to %s, want %s", r.BusURL(), want)
	}
	f.open(f.connect(r), "", bus.Settings{OpenOnly: true})
}

// What an operator's renewal brings is taken up by the server that runs, without a restart.
func TestRenewalByHandIsTakenUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var members []*membership.Member
	peers := []string{loopback(), loopback()}
	for i, p := range peers {
		members = append(members, f.join(join.Scope{Role: join.Bus, Site: "east", Name: fmt.Sprint("east-", i), Address: p, Peers: peers}))
	}
	for _, m := range members {
		f.serve(m)
	}
	r := f.join(join.Scope{Role: join.Rackd, Site: "east", Name: "a1", Group: "rack-a"})
	r.Servers = members[0].Servers[:1]
	gone := f.connect(r)
	if err := f.authority.RevokeMember(t.Context(), join.Rackd, "a1"); err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		byHand, err := membership.Open(m.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := byHand.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	until(t, func() bool { return !gone.IsConnected() })
}
