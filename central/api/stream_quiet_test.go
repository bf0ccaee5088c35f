package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
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
