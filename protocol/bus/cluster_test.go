package bus

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// cluster runs three servers that keep streams together, and returns a connection to one.
func cluster(t *testing.T) *nats.Conn {
	t.Helper()
	var routes []*url.URL // JetStream wants to know all of them beforehand
	ports := make([]int, 3)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var all []*server.Server
	for i, port := range ports {
		srv, err := server.NewServer(&server.Options{ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}, Routes: routes})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		all = append(all, srv)
	}
	// A leader has a place for three replicas once it has heard of what all three servers hold.
	known := func(s *server.Server) bool { return len(s.JetStreamClusterPeers()) == len(ports) }
	for end := time.Now().Add(40 * time.Second); !slices.ContainsFunc(all, known); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the servers do not find each other within 40 s")
		}
	}
	nc, err := nats.Connect("", nats.InProcessServer(all[0]), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// A rackd that starts where a bucket has just been lost, and is quicker than central, makes it
// with as many replicas as the others have: nobody would add any afterwards.
func TestWhatIsMissingComesBackLikeTheRest(t *testing.T) {
	t.Parallel()
	nc := cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	s, err := Open(ctx, nc, "", Settings{Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"KV_" + NodesBucket, "OBJ_" + ConfigDrives, EventsStream} {
		if err := s.JS.DeleteStream(ctx, name); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(ctx, nc, "", Settings{}); err != nil {
			t.Fatal(err)
		}
		stream, err := s.JS.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().Config.Replicas; n != 3 {
			t.Errorf("%s came back with %d replicas", name, n)
		}
	}
}
