package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/askclient"
	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/relay"
	"github.com/ironyard/ironyard/central/roster"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
)

// Run runs central until ctx ends or something that it cannot do without fails. It
// calls ready, if not nil, once the API answers; sites are opened beside that.
func Run(ctx context.Context, cfg Config, ready func(Info)) (err error) {
	if err := cfg.check(); err != nil {
		return err
	}
	siteMap, err := sites.NewMap(cfg.Sites)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, cfg.Database, store.Options{SiteOf: siteMap.SiteOf})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if n, err := db.Migrate(ctx); err != nil {
		return fmt.Errorf("bring the database's schema up to date: %w", err)
	} else if n > 0 {
		cfg.Log.Info("database schema is up to date", "migrations", n)
	}
	conn := cfg.Conn
	if conn == nil {
		if conn, err = connect(&cfg); err != nil {
			return err
		}
		defer conn.Close()
	}

	m := metrics.New(db.Statements)
	members := roster.New(cfg.Log, func(site string, n int) { m.ConductorsAlive.WithLabelValues(site).Set(float64(n)) })
	open := sites.NewSet(siteMap, conn, cfg.Log)
	out := relay.New(relay.Config{Store: db, Key: cfg.Key, Metrics: m, Log: cfg.Log, SiteOf: siteMap.SiteOf})
	in := ingest.New(ingest.Config{Store: db, Metrics: m, Log: cfg.Log, Nudge: out.Nudge})
	handler := api.New(api.Config{Store: db, Roster: members, Ask: askclient.New(open.Conn), Key: cfg.Key, Nudge: out.Nudge,
		Log: cfg.Log, PublicEndpoint: cfg.PublicEndpoint, CORSOrigins: cfg.CORSOrigins})

	watch := &observer{db: db, sites: open, conn: conn, metrics: m}
	front, err := listen(&cfg, watch, handler)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return open.Run(ctx, func(ctx context.Context, site *bus.Site) error {
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return members.Follow(ctx, site) })
			g.Go(func() error { return out.Follow(ctx, site) })
			g.Go(func() error { return in.Follow(ctx, site) })
			return g.Wait()
		})
	})
	g.Go(func() error { return watch.run(ctx) })
	front.serve(ctx, g, cfg.Grace)
	if ready != nil {
		ready(Info{Endpoint: front.endpoint, ObserveEndpoint: front.observeEndpoint, Store: db, Roster: members, Nudge: out.Nudge})
	}
	cfg.Log.Info("central is ready", "endpoint", front.endpoint, "database", db.Engine())
	return g.Wait()
}

// connect connects to the bus; while it is away central serves what it can, and
// goes on when it is back.
func connect(cfg *Config) (*nats.Conn, error) {
	opts := []nats.Option{nats.Name("central"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				cfg.Log.Warn("bus is away", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { cfg.Log.Info("bus is back", "server", c.ConnectedServerName()) })}
	if cfg.BusCreds != "" {
		opts = append(opts, nats.UserCredentials(cfg.BusCreds))
	}
	if cfg.BusToken != "" {
		opts = append(opts, nats.Token(cfg.BusToken))
	}
	conn, err := nats.Connect(cfg.BusURL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	return conn, nil
}

// beside puts observation beside the API on one listener. The API sees every other
// path as the client wrote it; a ServeMux would clean it first.
func beside(watch *observer, handler http.Handler) http.Handler {
	m := http.NewServeMux()
	watch.routes(m)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics", "/healthz", "/readyz":
			m.ServeHTTP(w, r)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}
