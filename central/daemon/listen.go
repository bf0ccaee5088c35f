package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// front is central's listeners and servers.
type front struct {
	endpoint        string
	observeEndpoint string
	servers         []*http.Server
	listeners       []net.Listener
}

// listen opens the listeners; serve must follow.
func listen(cfg *Config, watch *observer, handler http.Handler) (*front, error) {
	f := &front{}
	handler = watch.count(handler)
	all := handler
	if cfg.Observe == "" {
		all = beside(watch, handler)
	}
	var config *tls.Config
	if cfg.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("TLS certificate %s: %w", cfg.TLSCert, err)
		}
		config = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	var err error
	if f.endpoint, err = f.add(cfg.Listen, all, config, cfg.Log); err != nil {
		return nil, err
	}
	f.observeEndpoint = f.endpoint
	if cfg.Observe != "" {
		m := http.NewServeMux()
		watch.routes(m)
		if f.observeEndpoint, err = f.add(cfg.Observe, m, nil, cfg.Log); err != nil {
			return nil, errors.Join(err, f.listeners[0].Close())
		}
	}
	return f, nil
}

// add opens a listener and returns its base URL.
func (f *front) add(address string, h http.Handler, config *tls.Config, log *slog.Logger) (string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("listen on %s: %w", address, err)
	}
	scheme := "http"
	if config != nil {
		l, scheme = tls.NewListener(l, config), "https"
	}
	f.listeners = append(f.listeners, l)
	f.servers = append(f.servers, &http.Server{Handler: h, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)})
	return scheme + "://" + l.Addr().String(), nil
}

// serve runs the servers in g until ctx ends, and lets requests in flight finish
// within grace.
func (f *front) serve(ctx context.Context, g *errgroup.Group, grace time.Duration) {
	for i, s := range f.servers {
		g.Go(func() error {
			if err := s.Serve(f.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", f.listeners[i].Addr(), err)
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
			defer cancel()
			if err := s.Shutdown(stopping); err != nil {
				return s.Close() // those who are still talking are cut off
			}
			return nil
		})
	}
}
