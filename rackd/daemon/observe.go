package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ironyard/ironyard/rackd/strangers"
)

// writeWithin bounds an answer that its client takes slowly: a large ramdisk, of 500 MB, at
// some 280 kB/s. Images, which may be larger, have a bound of their own.
const writeWithin = 30 * time.Minute

// check is one reason why rackd may be unhealthy.
type check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Why  string `json:"why,omitempty"`
}

// observe serves /metrics, /healthz and /readyz. They need no authentication: they
// hold no secret and change nothing; bind them where only the operators reach.
func observe(ctx context.Context, l net.Listener, reg *prometheus.Registry, checks func() []check, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	health := func(w http.ResponseWriter, _ *http.Request) {
		list, status := checks(), http.StatusOK
		for _, c := range list {
			if !c.OK {
				status = http.StatusServiceUnavailable
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]any{"checks": list})
	}
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /readyz", health)
	return serveHTTP(ctx, l, mux, log)
}

// serveHTTP serves h on l, which it closes, until ctx ends. A handler that may take longer
// than the time for reading a request does not look at its request's context, which ends then.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: writeWithin,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateActive { // a request has come
				strangers.Known(c)
			}
		}}
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

// serveFirmware serves a handler by TLS to anybody. A connection counts as a stranger's until its first request.
func serveFirmware(ctx context.Context, l net.Listener, gate *strangers.Gate, c *tls.Config, h http.Handler, log *slog.Logger) error {
	return serveHTTP(ctx, tls.NewListener(gate.ListenTLS(l), c), h, log)
}
