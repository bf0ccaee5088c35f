package agentdoor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// openToStrangers serves agents over TLS on loopback, all of whose addresses a test may call from.
func openToStrangers(t *testing.T, budget strangers.Budget) (address string) {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	ids, err := NewIdentities(seal.NewKeyring("own", key), "own", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	status := func(error) int { return http.StatusUnauthorized }
	go func() {
		ended <- New(&oneNode{}, status, strangers.New(budget, nil, nil), slog.New(slog.DiscardHandler)).Serve(ctx, l, ids)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// dial opens a connection from an address of loopback, which ends with the test.
func dial(t *testing.T, from, to string) (net.Conn, error) {
	t.Helper()
	d := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// beat sends a heartbeat of a size over a connection, of which stay bytes do not come, and returns the status; 0: no answer.
func beat(c net.Conn, token string, size, stay int) int {
	body := fmt.Sprintf(`{"agent_token":%q,"callback_url":%q}`, token, strings.Repeat("a", max(0, size-50)))
	fmt.Fprintf(c, "POST %s%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", agentapi.HeartbeatPath, nodeID, len(body), body[:len(body)-stay])
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if stay > 0 {
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// Connections whose peer has shown nothing are bounded, of an address and in all. Those of agents that are known are not
// among them, and another address finds room.
func TestConnectionsOfStrangersAreBounded(t *testing.T) {
	const each = 8
	at := openToStrangers(t, strangers.Budget{Connections: 40, ConnectionsPerAddress: each})
	var agents []net.Conn
	for i := range 3 * each {
		c, err := dial(t, "127.0.0.1", at)
		if err != nil {
			t.Fatalf("agent %d: %v", i, err)
		}
		if got := beat(c, "t", 100, 0); got != http.StatusAccepted {
			t.Fatalf("agent %d: its heartbeat is answered %d", i, got)
		}
		agents = append(agents, c)
	}
	open := 0
	for range 5 * each {
		if c, err := dial(t, "127.0.0.1", at); err == nil {
			beat(c, "wrong", 3000, 1)
			open++
		}
	}
	if open != each {
		t.Errorf("a stranger holds %d connections; an address may have %d", open, each)
	}
	for i, c := range agents {
		if got := beat(c, "t", 100, 0); got != http.StatusAccepted {
			t.Errorf("agent %d, whose connection is open: %d", i, got)
		}
	}
	c, err := dial(t, "127.0.0.2", at)
	if err != nil {
		t.Fatalf("another machine is kept out: %v", err)
	}
	if got := beat(c, "t", 100, 0); got != http.StatusAccepted {
		t.Errorf("another machine's heartbeat: %d", got)
	}
}

// Heartbeats above 4 KiB whose sender has shown nothing are bounded; smaller ones, which agents send, are not kept out by them.
func TestLargeHeartbeatsOfStrangersAreBounded(t *testing.T) {
	at := openToStrangers(t, strangers.Budget{Bodies: 8, BodiesPerAddress: 2})
	call := func(from, token string, size, stay int) int {
		t.Helper()
		c, err := dial(t, from, at)
		if err != nil {
			t.Fatal(err)
		}
		return beat(c, token, size, stay)
	}
	for range 2 {
		if got := call("127.0.0.1", "wrong", 60_000, 1); got != 0 {
			t.Fatalf("a body that never ends is answered %d", got)
		}
	}
	if got := call("127.0.0.1", "wrong", 60_000, 1); got != http.StatusServiceUnavailable {
		t.Errorf("one more body that never ends is answered %d", got)
	}
	for _, c := range []struct {
		from string
		size int
		want int
	}{{"127.0.0.1", 60_000, http.StatusServiceUnavailable}, {"127.0.0.1", 3_000, http.StatusAccepted}, {"127.0.0.2", 60_000, http.StatusAccepted}, {"127.0.0.2", maxHeartbeat + 100, http.StatusBadRequest}} {
		if got := call(c.from, "t", c.size, 0); got != c.want {
			t.Errorf("%d bytes from %s: %d, want %d", c.size, c.from, got, c.want)
		}
	}
}

// The agent of one node writes no more of rackd's log than its part, and another's is not kept out by it.
func TestAgentsLogHasAPace(t *testing.T) {
	var log bytes.Buffer
	h := testDoor(&oneNode{}, &log)
	body, taken := strings.Repeat(strings.Repeat("x", 4000)+"\n", 125), 0
	for range 40 {
		r := httptest.NewRequest("POST", agentapi.LogPath+nodeID, strings.NewReader(body))
		r.Header.Set(TokenHeader, "t")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusAccepted:
			taken++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if taken == 0 || log.Len() > 2*strangers.DefaultLogBurst {
		t.Errorf("40 requests: %d taken, %d bytes of rackd's log", taken, log.Len())
	}
}
