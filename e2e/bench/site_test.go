package bench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

// group is the conductor group of all rackds and nodes.
const group = "rack"

// site is a site's bus in this process, on disk, as the site's own server would be.
type site struct {
	*bus.Site
	dir    string
	url    string
	key    *seal.Key // of the group
	server *server.Server
}

// newSite starts a bus that holds documents of nodes.
func newSite(b *testing.B, nodes []string) *site {
	b.Helper()
	s := &site{dir: b.TempDir()}
	key, err := seal.GenerateKey()
	if err == nil {
		s.key, err = key.ForGroup(group)
	}
	if err == nil {
		err = os.WriteFile(s.keyFile(), []byte(s.key.Text()+"\n"), 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	// Filled first without waiting for the disk, then started anew as sites run it:
	// what is acknowledged is on the disk.
	s.start(b, false)
	s.fill(b, nodes)
	s.stop()
	s.start(b, true)
	b.Cleanup(s.stop)
	return s
}

func (s *site) keyFile() string { return filepath.Join(s.dir, "group.key") }

func (s *site) start(b *testing.B, syncAlways bool) {
	b.Helper()
	srv, err := server.NewServer(&server.Options{ServerName: "site", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: filepath.Join(s.dir, "jetstream"), SyncAlways: syncAlways, MaxPayload: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	srv.Start()
	s.server = srv
	if !srv.ReadyForConnections(30 * time.Second) {
		b.Fatal("the bus was not ready within 30 s")
	}
	s.url = srv.ClientURL()
	conn, err := nats.Connect("", nats.InProcessServer(srv), nats.Name("bench"))
	if err != nil {
		b.Fatal(err)
	}
	if s.Site, err = bus.Open(b.Context(), conn, "", bus.Settings{Replicas: 1}); err != nil {
		b.Fatal(err)
	}
}

func (s *site) stop() {
	s.Conn.Close()
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

func (s *site) fill(b *testing.B, nodes []string) {
	b.Helper()
	js, err := jetstream.New(s.Conn, jetstream.WithPublishAsyncMaxPending(1024))
	if err != nil {
		b.Fatal(err)
	}
	for i, id := range nodes {
		if _, err := js.PublishAsync("$KV."+bus.NodesBucket+"."+bus.NodeKey(group, id), packed(b, s.key, document(s.key, id, i)),
			jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(5 * time.Minute):
		b.Fatal("the nodes' documents were not stored within 5 minutes")
	}
}

// syncTime is what an acknowledged write costs: what most of the figures hang on.
func (s *site) syncTime(ctx context.Context, b *testing.B) time.Duration {
	b.Helper()
	const writes = 50
	body := make([]byte, 1500)
	began := time.Now()
	for range writes {
		if _, err := s.Work.Put(ctx, bus.NodeKey("nobody", "probe"), body); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began) / writes
	if err := s.Work.Purge(ctx, bus.NodeKey("nobody", "probe")); err != nil {
		b.Fatal(err)
	}
	return took
}

// packed is a document as central writes it.
func packed(b *testing.B, key *seal.Key, d *node.Document) []byte {
	b.Helper()
	body, err := d.AppendSigned(nil, key)
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func encode(b *testing.B, v any) []byte {
	b.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	return body
}
