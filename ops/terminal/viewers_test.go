package terminal

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// oneViewer runs Forward to a session that do carries, with one viewer. It returns what people are told until Forward returns.
func oneViewer(t *testing.T, do func(*websocket.Conn), then func(viewer net.Conn, l net.Listener, stop context.CancelFunc)) (told []string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}})
		if err != nil {
			t.Error(err)
			return
		}
		do(conn)
	}))
	t.Cleanup(server.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	done := make(chan error, 1)
	go func() {
		done <- Forward(ctx, Target{Base: server.URL, Node: "web1"}, l, func(text string) { mu.Lock(); defer mu.Unlock(); told = append(told, text) })
	}()
	viewer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer viewer.Close()
	then(viewer, l, stop)
	select {
	case err = <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	return told, err
}

// A session that is closed without a word, as by a proxy, is told of in words.
func TestASessionThatIsClosedWithoutAWord(t *testing.T) {
	told, err := oneViewer(t, func(conn *websocket.Conn) { conn.Close(websocket.StatusGoingAway, "") }, func(viewer net.Conn, _ net.Listener, stop context.CancelFunc) {
		_, _ = viewer.Read(make([]byte, 1))
		stop()
	})
	if text := strings.Join(told, "\n"); err != nil || !strings.Contains(text, "has ended: ") || strings.HasSuffix(strings.TrimSpace(text), "ended:") {
		t.Errorf("told %q, %v", told, err)
	}
}

// A port that is gone ends its viewers, and the command with them. So does a person who ends the command. That person is told of no error.
func TestForwardEnds(t *testing.T) {
	hold := func(conn *websocket.Conn) { _, _, _ = conn.Read(context.Background()) }
	come := func(viewer net.Conn) { _, _ = viewer.Write([]byte("RFB 003.008\n")) }
	if _, err := oneViewer(t, hold, func(viewer net.Conn, l net.Listener, _ context.CancelFunc) { come(viewer); l.Close() }); err == nil {
		t.Error("a port that is gone is no error")
	}
	told, err := oneViewer(t, hold, func(viewer net.Conn, _ net.Listener, stop context.CancelFunc) {
		come(viewer)
		time.Sleep(100 * time.Millisecond)
		stop()
	})
	if text := strings.Join(told, "\n"); err != nil || strings.Contains(text, "canceled") {
		t.Errorf("told %q, %v", told, err)
	}
}
