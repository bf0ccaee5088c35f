package bus

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// gate lets nobody in until it has refused somebody a number of times.
type gate struct {
	mu   sync.Mutex
	left int
}

func (g *gate) Check(server.ClientAuthentication) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left--
	return g.left < 0
}

// notes keeps what is logged.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// Credentials that servers do not know yet are shown to them again and again: an operator
// who mends the servers need not restart who was refused.
func TestLastingIsRefusedAtFirst(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, CustomClientAuthentication: &gate{left: 4}})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not begin")
	}
	said := &notes{}
	conn, err := nats.Connect(strings.Replace(srv.ClientURL(), "//", "//me:sekret@", 1),
		append(Lasting(slog.New(slog.NewTextHandler(said, nil))), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	changed := conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	for !conn.IsConnected() {
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatalf("it waits: %v", Away(conn))
		}
		if conn.IsClosed() {
			t.Fatalf("it has given up: %v", Away(conn))
		}
	}
	if text := said.String(); strings.Count(text, "Authorization Violation") != 1 || strings.Contains(text, "sekret") {
		t.Errorf("logged:\n%s", text)
	}
}
