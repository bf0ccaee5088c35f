package site

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/ops/embeddedbus"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
	"github.com/ironyard/ironyard/protocol/seal"
)

// fleet is an authority with its listener, and what has joined.
type fleet struct {
	t         *testing.T
	key       *seal.Key
	store     *store.Store
	authority *enrol.Authority
	central   join.Central
	asked     atomic.Int64 // requests that reached the handler
	log       *slog.Logger
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, key: key, store: storetest.Open(t, storetest.SQLite(t)), log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if os.Getenv("SITE_TEST_LOG") != "" {
		f.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if f.authority, err = enrol.Open(t.Context(), f.store, key, nil); err != nil {
		t.Fatal(err)
	}
	f.central.URL = f.listen(f.authority)
	return f
}

// listen serves an authority's handler over TLS.
func (f *fleet) listen(a *enrol.Authority) (url string) { return f.listenAs(a, a) }

// listenAs shows another's certificate.
func (f *fleet) listenAs(a, shown *enrol.Authority) (url string) {
	h := a.Handler(f.log)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		h.ServeHTTP(w, r)
	}))
	srv.TLS = &tls.Config{GetCertificate: shown.OwnCertificate().ForServer}
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	srv.StartTLS()
	f.t.Cleanup(srv.Close)
	return srv.URL
}

func (f *fleet) token(s join.Scope) join.Token {
	f.t.Helper()
	tokens, err := f.authority.NewTokens(f.t.Context(), f.central, time.Hour, s)
	if err != nil {
		f.t.Fatal(err)
	}
	return tokens[0]
}

// join makes a member.
func (f *fleet) join(s join.Scope) *membership.Member {
	f.t.Helper()
	m, err := membership.Join(f.t.Context(), f.token(s), filepath.Join(f.t.TempDir(), "member"), "")
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// serve runs a member's NATS server until the test ends or stop is called.
func (f *fleet) serve(m *membership.Member) (stop func()) {
	f.t.Helper()
	return f.serveOn(m, m.Scope.Address)
}

// serveOn is serve for a server whose address has a port.
func (f *fleet) serveOn(m *membership.Member, listen string) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done, up := make(chan error, 1), make(chan struct{})
	go func() {
		done <- Serve(ctx, Options{Dir: m.Dir, Listen: listen, Log: f.log}, func(*membership.Member) { close(up) })
	}()
	select {
	case <-up:
	case err := <-done:
		cancel()
		f.t.Fatalf("server of %s: %v", m.Scope, err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("server of %s: %v", m.Scope, err)
		}
	}
	f.t.Cleanup(stop)
	return stop
}

// push tells a hub of the sites' accounts until the test ends.
func (f *fleet) push(hub *membership.Member) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- f.authority.PushAccounts(ctx, "tls://"+hub.Scope.Address+":"+membership.ClientPort, f.log, quiet)
	}()
	f.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("accounts were not pushed: %v", err)
		}
	})
}

// loopback returns an address of this machine that hardly anybody else uses.
func loopback() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(255), 1+rand.IntN(254))
}

// asCentral connects to a site through the servers at address.
func (f *fleet) asCentral(site, address string) *nats.Conn {
	f.t.Helper()
	own, err := f.authority.BusOptions(f.t.Context(), site)
	if err != nil {
		f.t.Fatal(err)
	}
	nc, err := nats.Connect("tls://"+address+":"+membership.ClientPort, append(own, quiet, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(nc.Close)
	return nc
}

// connect connects a rackd to its site's bus.
func (f *fleet) connect(m *membership.Member, more ...nats.Option) *nats.Conn {
	f.t.Helper()
	own, err := m.BusOptions()
	if err != nil {
		f.t.Fatal(err)
	}
	nc, err := nats.Connect(m.BusURL(), append(append(own, quiet, patient), more...)...)
	if err != nil {
		f.t.Fatalf("%s: %v", m.Scope, err)
	}
	f.t.Cleanup(nc.Close)
	return nc
}

// startFile runs a server of a configuration until the test ends.
func startFile(t *testing.T, path string, log *slog.Logger) *embeddedbus.Bus {
	t.Helper()
	b, err := embeddedbus.StartFile(t.Context(), path, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

// quiet keeps refusals, which these tests are about, off the console.
var quiet = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

// patient has a connection last for as long as TLS takes on a busy machine; without it nats.go gives up
// after 2 s.
var patient = nats.Timeout(20 * time.Second)

// open opens a rackd's or central's bus, trying as both do.
func (f *fleet) open(nc *nats.Conn, site string, s bus.Settings) *bus.Site {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	for {
		b, err := bus.Open(ctx, nc, site, s)
		if err == nil {
			return b
		}
		select {
		case <-ctx.Done():
			f.t.Fatalf("open the bus of site %q: %v (connection: %v)", site, err, nc.LastError())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
