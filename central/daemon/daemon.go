package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/age"
	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/askclient"
	"github.com/ironyard/ironyard/central/audit"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/groupkeys"
	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/register"
	"github.com/ironyard/ironyard/central/relay"
	"github.com/ironyard/ironyard/central/retention"
	"github.com/ironyard/ironyard/central/roster"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/strangers"
	"github.com/ironyard/ironyard/central/viewerpage"
	"github.com/ironyard/ironyard/central/watchdog"
	"github.com/ironyard/ironyard/central/watched"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
)

// Run runs central until ctx ends or something that it cannot do without fails. It
// calls ready, if not nil, once the API answers. That is when each site was opened or found to be away.
func Run(ctx context.Context, cfg Config, ready func(Info)) (err error) {
	if err := cfg.check(); err != nil {
		return err
	}
	gate, err := cfg.Access.gate()
	if err != nil {
		return err
	}
	siteMap, err := sites.NewMap(cfg.Sites, cfg.Failover...)
	if err != nil {
		return err
	}
	db, err := openDatabase(ctx, &cfg, siteMap)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var authority *enrol.Authority
	if cfg.EnrolListen != "" {
		if authority, err = enrol.Open(ctx, db, cfg.Key, nil); err != nil {
			return err
		}
	}
	keys, err := groupkeys.Open(ctx, db, cfg.Key)
	if err != nil {
		return err
	}
	buses, err := connect(ctx, &cfg, cfg.busAuthority(authority))
	if err != nil {
		return err
	}
	defer buses.close()

	m := metrics.New(db.Statements)
	if authority != nil {
		authority.OnMisuse(func(role join.Role) { m.MemberMisuse.WithLabelValues(string(role)).Inc() })
	}
	buses.attend(func(site string) { m.BusOverflows.WithLabelValues(site).Inc() }, cfg.Log)
	open := sites.NewSet(siteMap, buses.of, cfg.Log)
	open.HandOut(keys)
	members := roster.New(roster.Config{Log: cfg.Log, SiteOf: siteMap.SiteOf, Failover: siteMap.Failover, Heard: open.Heard,
		Sealing: keys.Sealing,
		Alive:   func(site string, n int) { m.ConductorsAlive.WithLabelValues(site).Set(float64(n)) }})
	calls := new(inspection.Caller)
	defer calls.Open(ctx, cfg.Log)()
	away := awayOf(open, members, siteMap.SiteOf)
	forced := &dispatch.Dispatcher{Store: db, Roster: members, Key: cfg.Key, Groups: keys, Now: time.Now, Log: cfg.Log, Away: away}
	in := ingest.New(ingest.Config{Store: db, Metrics: m, Log: cfg.Log, SiteOf: siteMap.SiteOf, Key: cfg.Key, Groups: keys, Inspection: cfg.Inspection, Calls: calls, Correct: forced.Correct})
	out := relay.New(relay.Config{Store: db, Key: cfg.Key, Groups: keys, Metrics: m, Log: cfg.Log, SiteOf: siteMap.SiteOf, Drained: in.Applied})
	ages, err := age.Begin(ctx, db, cfg.Log, nil)
	if err != nil {
		return err
	}
	trail := audit.New(audit.Config{Store: db, Log: cfg.Log, Keep: cfg.AuditKeep, Before: ages.Before})
	changes, told := newFeed(&cfg, db, buses)
	budget := strangers.New(cfg.Strangers, func(k strangers.Kind) { m.StrangersRefused.WithLabelValues(string(k)).Inc() })
	handler := api.New(api.Config{Auth: gate.strategy, Policy: gate.rules, NoSelfService: cfg.Access.NoSelfService,
		Audit: trail, Feed: changes, TrustedProxies: cfg.TrustedProxies, Store: db, Roster: members, Ask: askclient.New(open.Conn), Away: away, Key: cfg.Key, Groups: keys,
		Log: cfg.Log, PublicEndpoint: cfg.PublicEndpoint, CORSOrigins: cfg.CORSOrigins, NoRamdiskEndpoints: cfg.NoRamdiskEndpoints, MaxRequests: cfg.MaxRequests, Strangers: budget, LockWait: cmp.Or(cfg.LockWait, api.DefaultLockWait),
		LookupAnyState: cfg.LookupAnyState, DisallowedSteps: cfg.DisallowedSteps, Nodes: cfg.Nodes, Discovery: cfg.Discovery, Inspection: cfg.Inspection, Calls: calls,
		Consoles: m, ConsolePage: consolePage(&cfg), Stopping: ctx.Done()})

	told.render = handler.Notifications
	watch := &observer{db: db, sites: open, buses: buses, ingest: in, strangers: budget, metrics: m}
	front, err := listen(&cfg, watch, handler, authority, gate)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return open.Run(ctx, func(ctx context.Context, site *bus.Site) error {
			site.Refused = func(bucket string, lies bool) { m.Refused(site.Name, bucket, lies) }
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return members.Follow(ctx, site) })
			g.Go(func() error { return out.Follow(ctx, site) })
			g.Go(func() error { return in.Follow(ctx, site) })
			return g.Wait()
		})
	})
	g.Go(func() error { return watch.run(ctx) })
	g.Go(func() error { return trail.Run(ctx) })
	old := retention.New(retention.Config{Rows: db, Log: cfg.Log, History: cfg.KeepHistory, Works: cfg.KeepWorks, Before: ages.Before,
		Removed: func(kind string, rows int64) { m.Removed.WithLabelValues(kind).Add(float64(rows)) }})
	g.Go(func() error { return old.Run(ctx) })
	g.Go(func() error { return budget.Run(ctx, cfg.Log) })
	g.Go(func() error { return changes.Run(ctx) })
	orphans := watchdog.New(watchdog.Config{Store: db, Roster: members, Away: away, Failover: siteMap.Failover, Grace: cfg.OrphanGrace, Log: cfg.Log,
		Ended: func(group string) { m.WatchdogEnded.WithLabelValues(siteMap.SiteOf(group)).Inc() }})
	g.Go(func() error { return orphans.Run(ctx) })
	g.Go(func() error { return keys.Run(ctx, cfg.Log) })
	keeper := &groupkeys.Keeper{Store: db, Keys: keys, Log: cfg.Log, Rackds: members.Conductors, Failover: siteMap.Failover, Away: away, SiteOf: siteMap.SiteOf, Pace: cfg.KeyPace}
	g.Go(func() error { return keeper.Run(ctx) })
	seen := register.New(register.Config{Store: db, Roster: members, Before: ages.Before, Log: cfg.Log})
	g.Go(func() error { return seen.Run(ctx) })
	if a := cfg.busAuthority(authority); a != nil {
		g.Go(func() error { return a.PushAccounts(ctx, cfg.BusURL, cfg.Log) })
	}
	g.Go(func() error { return watched.Follow(ctx, cfg.Access.Refresh, cfg.Reread, cfg.Log, gate.files...) })
	open.AwaitFirst(ctx, members.Read)
	front.serve(ctx, g, cfg.Grace)
	if ready != nil {
		ready(Info{Endpoint: front.endpoint, ObserveEndpoint: front.observeEndpoint, EnrolEndpoint: front.enrolEndpoint, Store: db, Roster: members, Authority: authority})
	}
	cfg.Log.Info("central is ready", "endpoint", front.endpoint, "database", db.Engine())
	return g.Wait()
}

// consolePage is the path below which people see graphical consoles, empty where there is no page.
func consolePage(cfg *Config) string {
	if cfg.NoVNC == "" {
		return ""
	}
	return viewerpage.Pages
}

// openDatabase opens the database, with the schema of this program.
func openDatabase(ctx context.Context, cfg *Config, m *sites.Map) (*store.Store, error) {
	db, err := store.Open(ctx, cfg.Database, store.Options{SiteOf: m.SiteOf})
	if err != nil {
		return nil, err
	}
	n, err := db.Migrate(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bring the database's schema up to date: %w", err), db.Close())
	}
	if n > 0 {
		cfg.Log.Info("database schema is up to date", "migrations", n)
	}
	return db, nil
}

// awayOf returns what says of a conductor group why its site cannot be asked, nil if it can: it
// is away, or its conductors are not known yet to a central that has begun now.
func awayOf(open *sites.Set, members *roster.Roster, siteOf func(group string) string) func(group string) error {
	began := time.Now()
	return func(group string) error {
		if err := open.Away(group); err != nil {
			return err
		}
		if site := siteOf(group); !members.Read(site) {
			return &sites.AwayError{Site: site, Since: began, NotYet: true, Why: "its conductors are still being read"}
		}
		return nil
	}
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
