package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/viewerpage"
	"github.com/ironyard/ironyard/central/watched"
)

// front is central's listeners and servers.
type front struct {
	endpoint        string
	observeEndpoint string
	enrolEndpoint   string
	servers         []*http.Server
	listeners       []net.Listener
}

// answerWithin bounds an answer from the end of its request's head to its last byte, which
// the client takes: the longest page at some 20 kB/s. Streams have bounds of their own.
const answerWithin = 5 * time.Minute

// listen opens the listeners; serve must follow.
func listen(cfg *Config, watch *observer, handler http.Handler, authority *enrol.Authority, g *gate) (*front, error) {
	f := &front{}
	if err := f.open(cfg, watch, handler, authority, g); err != nil {
		for _, l := range f.listeners {
			l.Close()
		}
		return nil, err
	}
	return f, nil
}

func (f *front) open(cfg *Config, watch *observer, handler http.Handler, authority *enrol.Authority, g *gate) error {
	handler = watch.count(handler)
	all := handler
	if cfg.Observe == "" {
		all = beside(watch, handler)
	}
	if cfg.NoVNC != "" {
		pages, err := viewerpage.New(cfg.NoVNC, all)
		if err != nil {
			return err
		}
		all = pages
	}
	all = guardHosts(cfg, all)
	config, err := serverTLS(cfg, authority, g)
	if err != nil {
		return err
	}
	public := config
	if local, _ := loopback(cfg.Listen); local && cfg.TLSCert == "" {
		public = nil // plain HTTP, for development
	}
	if f.endpoint, err = f.add(cfg.Listen, all, public, cfg.Log); err != nil {
		return err
	}
	if local, _ := loopback(cfg.Listen); !local && public == nil && !cfg.Access.open() {
		cfg.Log.Warn("the API has no TLS: passwords and tokens can be read on the way, unless a proxy on this machine has it", "listen", cfg.Listen)
	}
	if authority != nil {
		if f.enrolEndpoint, err = f.add(cfg.EnrolListen, authority.Handler(cfg.Log), config, cfg.Log); err != nil {
			return err
		}
	}
	f.observeEndpoint = f.endpoint
	if cfg.Observe != "" {
		m := http.NewServeMux()
		watch.routes(m)
		if f.observeEndpoint, err = f.add(cfg.Observe, m, nil, cfg.Log); err != nil {
			return err
		}
	}
	return nil
}

// serverTLS is the configuration of listeners with TLS: the operator's certificate, as it is now,
// else one of the fleet's authority, else nil.
func serverTLS(cfg *Config, authority *enrol.Authority, g *gate) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	switch {
	case cfg.TLSCert != "":
		pair, err := watched.Open(func(texts [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(texts[0], texts[1])
			return &pair, err
		}, cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("TLS certificate: %w", err)
		}
		g.files = append(g.files, pair)
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil }
	case authority != nil:
		config.GetCertificate = authority.OwnCertificate(names(cfg)...).ForServer
	default:
		return nil, nil
	}
	return config, nil
}

// names are those that clients may know central by, besides its addresses.
func names(cfg *Config) []string {
	list := []string{"localhost"}
	if host, err := os.Hostname(); err == nil {
		list = append(list, host)
	}
	if u, err := url.Parse(cfg.PublicEndpoint); err == nil && u.Hostname() != "" {
		list = append(list, u.Hostname())
	}
	return list
}

// add opens a listener and returns its base URL. Each server gets a configuration of its own,
// which it changes when it begins to serve.
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
	f.servers = append(f.servers, &http.Server{Handler: h, TLSConfig: config.Clone(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute,
		WriteTimeout: answerWithin, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, HTTP2: http2Bounds(), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)})
	return scheme + "://" + l.Addr().String(), nil
}

// What an HTTP/2 connection may make central hold of bodies before anything has looked at them, in bytes, and how many
// requests it may have open. By default it would be a megabyte, of each connection, from strangers too.
const (
	maxUnread  = 128 << 10
	maxStreams = 100
)

func http2Bounds() *http.HTTP2Config {
	return &http.HTTP2Config{MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread, MaxConcurrentStreams: maxStreams}
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
