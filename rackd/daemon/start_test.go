package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
)

// freeAddress is one of this machine that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// waiting is the configuration of a rackd whose bus, at address, is not there yet.
func waiting(t *testing.T, address string) Config {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	conn, err := nats.Connect("nats://"+address, append(bus.Lasting(log), nats.ReconnectWait(10*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return Config{Name: "r", Conn: conn, Keys: seal.NewKeyring("", key), DataDir: t.TempDir(), Log: log}
}

// What is wrong on this machine is told while the bus is away, not once it is there.
func TestWrongFromTheStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, spoil := range map[string]func(*Config){
		"mainframe":              func(c *Config) { c.Drivers = []string{"mainframe"} },
		"nofile":                 func(c *Config) { c.Rack = &Rack{Kernel: "nofile", Ramdisk: "nofile"} },
		"address already in use": func(c *Config) { c.Observe = taken.Addr().String() },
	} {
		cfg := waiting(t, freeAddress(t))
		spoil(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := Run(ctx, cfg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
		cancel()
	}
}

// A rackd whose bus is away says so to who asks for its health, and gets well by itself.
func TestHealthWhileTheBusIsAway(t *testing.T) {
	at := freeAddress(t)
	cfg := waiting(t, at)
	cfg.Observe = freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, func() { close(ready) }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	health := func(status int, want string) {
		t.Helper()
		var last string
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			res, err := http.Get("http://" + cfg.Observe + "/healthz")
			if err != nil {
				continue // it does not listen yet
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if last = string(text); err == nil && res.StatusCode == status && strings.Contains(last, want) {
				return
			}
		}
		t.Fatalf("health never was %d with %q, but %s", status, want, last)
	}
	health(http.StatusServiceUnavailable, "no connection to the bus at nats://"+at)
	res, err := http.Get("http://" + cfg.Observe + "/metrics")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %v, %v", res, err)
	}
	res.Body.Close()

	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: number, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	<-ready
	health(http.StatusOK, `"bus","ok":true`)
}
