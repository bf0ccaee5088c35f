package daemon

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"testing"
)

// Servers change their configurations when they begin to serve, all at once.
func TestServersShareNoTLSConfiguration(t *testing.T) {
	f, config := &front{}, &tls.Config{MinVersion: tls.VersionTLS12}
	for range 2 {
		if _, err := f.add("127.0.0.1:0", http.NotFoundHandler(), config, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range f.listeners {
		l.Close()
	}
	if a, b := f.servers[0].TLSConfig, f.servers[1].TLSConfig; a == b || a == config || b == config || a.MinVersion != tls.VersionTLS12 {
		t.Errorf("the servers have %p and %p, made of %p", a, b, config)
	}
}
