package vbmc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// service is where a request's context holds the context of the service, which outlives it.
type service struct{}

// Serve answers on l, which it closes, until ctx ends.
func (b *BMC) Serve(ctx context.Context, l net.Listener) error {
	if err := ServeMany(ctx, l, b.cfg.Log, func(net.Addr) *BMC { return b }); err != nil {
		return fmt.Errorf("BMC %s: %w", b.cfg.Name, err)
	}
	return nil
}

// ServeMany answers for many BMCs on l, which it closes, until ctx ends: at returns
// the BMC that lives at the address which a caller has connected to, nil for none.
// So thousands of BMCs, each with an address of its own, cost one listener.
func ServeMany(ctx context.Context, l net.Listener, logger *slog.Logger, at func(local net.Addr) *BMC) error {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b := at(r.Context().Value(http.LocalAddrContextKey).(net.Addr))
			if b == nil {
				panic(http.ErrAbortHandler)
			}
			r = r.WithContext(context.WithValue(r.Context(), service{}, ctx))
			b.Faults.wrap(ctx, b.restart, b.noted(http.HandlerFunc(b.answer))).ServeHTTP(w, r)
		}),
		TLSConfig: &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			b := at(hello.Conn.LocalAddr())
			if b == nil {
				return nil, errors.New("no BMC has this address")
			}
			return b.cert, nil
		}},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(discardTLSNoise{logger}, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.ServeTLS(refusing{l, at}, "", "")
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serving Redfish on %s: %w", l.Addr(), err)
}

// discardTLSNoise turns the server's complaints about broken connections, which
// every fault causes, into debug messages.
type discardTLSNoise struct{ log *slog.Logger }

func (d discardTLSNoise) Write(p []byte) (int, error) {
	d.log.Debug("HTTP server", "said", string(p))
	return len(p), nil
}

// refusing is a listener that hangs up on callers of a BMC whose fault Refuse is on,
// and of addresses where no BMC is.
type refusing struct {
	net.Listener
	at func(local net.Addr) *BMC
}

func (l refusing) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return c, err
		}
		if b := l.at(c.LocalAddr()); b != nil && !b.Faults.refusing() {
			return b.callers.keep(c), nil
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // a reset, as from a port where nobody listens
		}
		c.Close()
	}
}
