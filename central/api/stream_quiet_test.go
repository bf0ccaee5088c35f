package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/central/feed"
)

// A stream that has nothing to say for longer than a write may take lives on, by both
// protocols: over HTTP/2 a deadline for writing ends a stream that writes nothing, too.
func TestQuietStreamsLive(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", v2), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { quietStream(t, v2) })
		})
	}
}

func quietStream(t *testing.T, v2 bool) {
	const signs = 4
	l := &pipes{conns: make(chan net.Conn)}
	var p http.Protocols
	p.SetHTTP1(!v2)
	p.SetUnencryptedHTTP2(v2)
	srv := &http.Server{Protocols: &p, ReadTimeout: writeWithin, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := &stream{w: w, flush: http.NewResponseController(w)}
		_ = out.flush.SetReadDeadline(time.Time{})
		for i := range int64(signs) {
			out.alive(i)
			if err := out.send(); err != nil {
				t.Errorf("sign of life %d: %v", i, err)
			}
			time.Sleep(2 * writeWithin) // of the bubble's clock
		}
	})}
	ended := make(chan error)
	go func() { ended <- srv.Serve(l) }()
	transport := &http.Transport{Protocols: &p, DialContext: l.dial}
	res, err := (&http.Client{Transport: transport}).Get("http://central/")
	if err != nil {
		t.Fatal(err)
	}
	if (res.ProtoMajor == 2) != v2 {
		t.Errorf("the answer came by %s", res.Proto)
	}
	lines := bufio.NewScanner(res.Body)
	for i := range signs {
		if want := fmt.Sprintf(`{"id":%d,"type":"bookmark"}`, i); !lines.Scan() || lines.Text() != want {
			t.Errorf("%q, %v; want %s", lines.Text(), lines.Err(), want)
		}
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Errorf("the stream's end: %v", err)
	}
	res.Body.Close()
	transport.CloseIdleConnections()
	srv.Close()
	<-ended
}

// pipes is a listener that is dialled in memory.
type pipes struct{ conns chan net.Conn }

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	server, client := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipes) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *pipes) Close() error   { close(l.conns); return nil }
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// A reader that takes a little at a time is not cut while it does, however much there is to
// read; and what was sent once is not kept for as long as the stream goes on.
func TestSlowReadersAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{ResponseRecorder: httptest.NewRecorder()}
		out := &stream{w: w, flush: http.NewResponseController(w)}
		for out.buf = []byte{}; len(out.buf) < 40*pieceSize; {
			out.alive(1)
		}
		sent := len(out.buf)
		if err := out.send(); err != nil || w.Body.Len() != sent {
			t.Errorf("of %d bytes %d were sent: %v", sent, w.Body.Len(), err)
		}
		if cap(out.buf) > pieceSize {
			t.Errorf("the stream keeps a buffer of %d bytes", cap(out.buf))
		}
	})
}

// slow takes a piece a second, until the deadline.
type slow struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *slow) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(len(b)) * time.Second / pieceSize) // of the bubble's clock
	if !s.deadline.IsZero() && time.Now().After(s.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return s.ResponseRecorder.Write(b)
}

// Who watches what is quiet hears that the stream lives, and how far it has come, also while
// others change all the time.
func TestWatchIsAliveBesideOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.server.Feed = feed.New(feed.Config{Store: b.store, Log: b.server.Log})
		b.addNode()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.server.Feed.Run(ctx) }()
		req := httptest.NewRequestWithContext(ctx, "GET", "/v1/nodes/n1?watch=true&fields=name", nil)
		req.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
		w := httptest.NewRecorder()
		watched := make(chan struct{})
		go func() { defer close(watched); b.server.ServeHTTP(w, req) }()
		synctest.Wait() // the bench notes the route of one request at a time
		for range 60 {
			time.Sleep(time.Second) // of the bubble's clock
			b.want(201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware"}`)
		}
		cancel()
		<-watched
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := strings.Count(w.Body.String(), `"type":"bookmark"`); got < 3 || got > 4 {
			t.Errorf("%d signs of life in a minute:\n%s", got, w.Body)
		}
	})
}
