package ingest_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A site whose bus comes back from an older copy numbers its events as it had numbered
// others before: they are not taken for those. Whoever reads has the site opened again.
func TestBackFromAnOlderCopy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	port := server.RANDOM_PORT
	start := func(dir string) *server.Server {
		srv := bustest.Listen(t, dir, port)
		port = srv.Addr().(*net.TCPAddr).Port
		return srv
	}
	answers := func() {
		for deadline := time.Now().Add(20 * time.Second); ; {
			_, err := f.site.Events.Info(t.Context())
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	end := func(srv *server.Server) { srv.Shutdown(); srv.WaitForShutdown() }
	now, older := t.TempDir(), filepath.Join(t.TempDir(), "older")
	srv := start(now)
	nc, err := nats.Connect(srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if f.site, err = bus.Open(t.Context(), nc, "", bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	n, w := f.deploy("n")
	followed := make(chan error, 1)
	follow := func() { go func() { followed <- f.ingest.Follow(t.Context(), f.site) }() }
	follow()
	f.phases(w, 1, 1)
	f.ordered(w, 1)
	end(srv)
	if err := os.CopyFS(older, os.DirFS(now)); err != nil {
		t.Fatal(err)
	}
	srv = start(now)
	answers()
	f.phases(w, 2, 6)
	f.ordered(w, 6)
	end(srv)
	start(older)
	answers()

	ended := about(w, work.WorkEnded, 7)
	ended.State = provision.Active
	f.publish(ended)
	select {
	case err := <-followed:
		if err == nil || !strings.Contains(err.Error(), "older copy") {
			t.Errorf("Follow ended with %v, want that the stream is an older copy", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nobody has noticed that the stream is behind what was read of it")
	}
	follow()
	f.publish(ended) // as a rackd does until its work is gone
	// The first was delivered to the read that has ended, which did not acknowledge it: the bus delivers it again after a minute. What this
	// is about is the second.
	applied, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for f.node(n.UUID).ProvisionState != provision.Active && applied.Err() == nil {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-applied.Done():
		}
	}
	if got := f.node(n.UUID); got.ProvisionState != provision.Active {
		t.Errorf("the node is %q: its end was taken for an event that had been applied", got.ProvisionState)
	}
}
