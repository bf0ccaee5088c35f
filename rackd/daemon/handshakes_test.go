package daemon

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/strangers"
)

// Anybody on the machines' network may begin handshakes with the port for firmware. A host that begins many and ends none leaves places to
// others; and who has asked for a file takes none of them.
func TestHandshakesOfStrangersAreBounded(t *testing.T) {
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gate, served := strangers.New(strangers.Budget{Handshakes: 8, HandshakesPerAddress: 4}, nil, nil), make(chan error, 1)
	go func() {
		served <- serveFirmware(ctx, l, gate, &tls.Config{Certificates: certificate.TLS.Certificates}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "kernel") }), slog.New(slog.DiscardHandler))
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	from := func(address string) *net.Dialer {
		return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
	}
	shut := 0
	for range 20 { // which say nothing
		c, err := from("127.0.0.2").Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == io.EOF {
			shut++
		} else if late, is := err.(net.Error); is && !late.Timeout() {
			shut++ // it was reset
		}
	}
	if shut == 0 {
		t.Error("20 silent connections of one host are all held")
	}
	roots := certificate.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for range 12 { // machines, each with a connection that stays
		transport := &http.Transport{DialContext: from("127.0.0.3").DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get("https://" + l.Addr().String() + "/files/kernel")
		if err != nil {
			t.Fatalf("a machine is kept out: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "kernel" {
			t.Errorf("%q, %v", body, err)
		}
	}
}
