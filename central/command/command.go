// Package command is central's command line: flags, environment and files become a
// daemon.Config. It may import central/daemon, central/sites, central/store and
// protocol.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/heap"
	"github.com/ironyard/ironyard/protocol/release"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

const manual = `central is Ironyard's control plane.

It serves the Ironic-compatible API, keeps what operators asked for and what racks observed in its database, and
exchanges both with the sites over the bus. It has no state beside the database: run as many replicas as you like.

  (umask 077; central key generate > /etc/ironyard/key)
  central migrate --database postgres://ironyard@db/ironyard
  central serve --database postgres://ironyard@db/ironyard --key-file /etc/ironyard/key --bus nats://hub:4222

Without --auth it serves everybody, and only on a loopback address:

  central serve … --listen :6385 --tls-cert api.pem --tls-key api.key --auth http_basic --htpasswd /etc/ironyard/users

'ironyard dev' runs central, a bus and a rackd in one process, with nothing to prepare.

Exit codes: 0 done, or ended by SIGTERM; 1 it failed, and standard error says why; 80 the command line
cannot be read.`

type flags struct {
	Serve   serve         `cmd:"" help:"Run central until SIGTERM."`
	Migrate migrate       `cmd:"" help:"Bring the database's schema up to date, and end. 'serve' does so too when it starts."`
	Key     keyCommand    `cmd:"" help:"Make a secret key, or bring the database under a new one."`
	Token   tokenCommand  `cmd:"" help:"Make, list and revoke the tokens with which servers and rackds join the fleet."`
	Member  memberCommand `cmd:"" help:"List the fleet's members, and put them out."`
	Event   eventCommand  `cmd:"" help:"List the events of racks that could not be stored, and apply them after all."`

	LogJSON bool `help:"Log JSON." env:"CENTRAL_LOG_JSON" name:"log-json"`
	Debug   bool `help:"Log more." env:"CENTRAL_DEBUG"`

	Version kong.VersionFlag `help:"Print the version and end."`
}

type database struct {
	Database string `help:"sqlite:PATH on one machine, or postgres://… for PostgreSQL and CockroachDB. A command line can be read by all on the machine: give a password by the variable, or in PGPASSFILE's file." required:"" env:"CENTRAL_DATABASE" placeholder:"URL"`
}

type serve struct {
	database
	Listen  string `help:"Address of the API." default:"127.0.0.1:6385" env:"CENTRAL_LISTEN"`
	Observe string `help:"Address of /metrics, /healthz and /readyz; empty: the API's." env:"CENTRAL_OBSERVE"`
	keyFile
	records
	access
	PublicEndpoint string        `help:"What links in answers begin with; default: the host that a request names." env:"CENTRAL_PUBLIC_ENDPOINT" placeholder:"URL"`
	Host           []string      `help:"Name by which clients may address an API that serves everybody; may be repeated; '*': every name. Addresses, localhost and the public endpoint's host always may. On loopback others are refused, elsewhere if a name is given." env:"CENTRAL_HOSTS" placeholder:"NAME"`
	CORSOrigin     []string      `help:"Origin, SCHEME://HOST[:PORT], whose pages may use the API from a browser; may be repeated." env:"CENTRAL_CORS_ORIGINS"`
	TLSCert        string        `help:"Certificate, PEM." type:"existingfile" placeholder:"FILE" env:"CENTRAL_TLS_CERT"`
	TLSKey         string        `help:"Its key, PEM." type:"existingfile" placeholder:"FILE" env:"CENTRAL_TLS_KEY"`
	EnrolListen    string        `help:"Address where servers and rackds join with their tokens, over TLS ('central token' makes tokens); empty: nobody can." env:"CENTRAL_ENROL_LISTEN" placeholder:"HOST:6387"`
	InsecureNoAuth bool          `help:"Serve without authentication on an address that is not loopback: everybody who reaches it may do everything." env:"CENTRAL_INSECURE_NO_AUTH"`
	NoRamdisk      bool          `help:"Do not serve agents in ramdisks (lookup, heartbeat, continue_inspection): they get 403." name:"no-ramdisk-endpoints" env:"CENTRAL_NO_RAMDISK_ENDPOINTS"`
	LookupAnyState bool          `help:"Let agents look up nodes on which nothing is being done." env:"CENTRAL_LOOKUP_ANY_STATE"`
	DisallowStep   []string      `help:"A step that no list of steps may name; may be repeated; empty: none. Default: vendor.send_raw." default:"vendor.send_raw" env:"CENTRAL_DISALLOWED_STEPS" placeholder:"INTERFACE.STEP"`
	MaxRequests    int           `help:"How many requests of known callers the API works on at once, half of them of agents; others get 503 and may come back. Negative: no bound." default:"1000" env:"CENTRAL_MAX_REQUESTS"`
	LockWait       time.Duration `help:"How long a request waits for other work on its node to end before it is refused with 409. Negative: not at all." default:"3s" env:"CENTRAL_LOCK_WAIT"`
	OrphanGrace    time.Duration `help:"How long a node may have no rackd that could serve it before its work, past its deadline, is ended." default:"15m" env:"CENTRAL_ORPHAN_GRACE"`
	Grace          time.Duration `help:"How long requests in flight may take when central stops." default:"10s" env:"CENTRAL_GRACE"`

	Bus          string   `help:"URL of the hub, or of the only site's server." required:"" env:"CENTRAL_BUS" placeholder:"nats://HOST:4222" group:"Bus"`
	BusCreds     string   `help:"Credentials file for it." type:"existingfile" placeholder:"FILE" env:"CENTRAL_BUS_CREDS" group:"Bus"`
	BusTokenFile string   `help:"File with a token for it." type:"existingfile" placeholder:"FILE" env:"CENTRAL_BUS_TOKEN_FILE" group:"Bus"`
	Site         []string `help:"A site, by its JetStream domain, and the conductor groups that it serves; may be repeated. One without groups serves all others. Default: the bus is the only site." env:"CENTRAL_SITES" sep:";" placeholder:"NAME[=GROUP,…]" group:"Bus"`
	Failover     []string `help:"Conductor groups, of the same site, whose rackds serve a group's nodes while none of its own lives, in order; may be repeated." env:"CENTRAL_FAILOVER" sep:";" placeholder:"GROUP=GROUP,…" group:"Bus"`
	EventsMiB    int64    `help:"What events may take of each site's store, in MiB, for each replica. Those that central has not applied are never dropped: when they fill it, rackds keep further ones and wait." default:"512" env:"CENTRAL_SITE_EVENTS_MIB" name:"site-events-mib" placeholder:"MIB" group:"Bus"`
	DrivesMiB    int64    `help:"What config drives of work in flight may take of each site's store, in MiB, for each replica. When they fill it, further deploys with a config drive wait." default:"512" env:"CENTRAL_SITE_DRIVES_MIB" name:"site-drives-mib" placeholder:"MIB" group:"Bus"`
	Replicas     int      `help:"Replicas of each bucket and stream of a site." default:"1" env:"CENTRAL_SITE_REPLICAS" group:"Bus"`

	strangerFlags
	nodeFlags
	inspectionFlags
}

type migrate struct {
	database
}

// Main runs central and exits.
func Main() {
	if err := failpoint.ArmFromEnv(); err != nil {
		fmt.Fprintln(os.Stderr, "central:", err)
		os.Exit(1)
	}
	var f flags
	k := kong.Parse(&f, kong.Name("central"), kong.Description(manual), kong.Vars{"version": "central " + release.Text()}, kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	go heap.Keep(ctx)
	log := logger(f)
	k.BindTo(ctx, (*context.Context)(nil))
	k.BindTo(os.Stdout, (*io.Writer)(nil))
	if err := k.Run(log); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("central ends", "error", err)
		os.Exit(1)
	}
}

func logger(f flags) *slog.Logger {
	o := &slog.HandlerOptions{}
	if f.Debug {
		o.Level = slog.LevelDebug
	}
	if f.LogJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}

// Run is called by kong.
func (s *serve) Run(ctx context.Context, log *slog.Logger) error {
	cfg, err := s.config(log)
	if err != nil {
		return err
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	cfg.Reread = again
	return daemon.Run(ctx, cfg, nil)
}

func (s *serve) config(log *slog.Logger) (daemon.Config, error) {
	cfg := daemon.Config{Database: s.Database, Listen: s.Listen, Observe: s.Observe, PublicEndpoint: s.PublicEndpoint, Hosts: s.Host, CORSOrigins: s.CORSOrigin,
		TLSCert: s.TLSCert, TLSKey: s.TLSKey, EnrolListen: s.EnrolListen, InsecureNoAuth: s.InsecureNoAuth, NoRamdiskEndpoints: s.NoRamdisk, LookupAnyState: s.LookupAnyState, DisallowedSteps: s.DisallowStep, MaxRequests: s.MaxRequests, LockWait: cmp.Or(s.LockWait, -1),
		BusURL: s.Bus, BusCreds: s.BusCreds, OrphanGrace: s.OrphanGrace, Grace: s.Grace, Discovery: s.discovery(), Log: log}
	err := s.records.set(&cfg)
	if err != nil {
		return cfg, err
	}
	s.nodeFlags.set(&cfg)
	cfg.Strangers = s.strangerFlags.budget()
	if cfg.Key, err = s.key(log); err != nil {
		return cfg, err
	}
	if cfg.Inspection, err = s.processor(); err != nil {
		return cfg, err
	}
	if cfg.Access, err = s.access.config(log); err != nil {
		return cfg, err
	}
	if s.BusTokenFile != "" {
		token, err := secretfile.Read(s.BusTokenFile, log)
		if err != nil {
			return cfg, fmt.Errorf("token of the bus: %w", err)
		}
		cfg.BusToken = strings.TrimSpace(string(token))
	}
	for _, path := range []string{s.TLSKey, s.BusCreds} { // read elsewhere
		secretfile.Check(path, log)
	}
	for _, text := range s.Site {
		site, err := sites.Parse(text)
		if err != nil {
			return cfg, err
		}
		cfg.Sites = append(cfg.Sites, site)
	}
	for _, text := range s.Failover {
		failover, err := sites.ParseFailover(text)
		if err != nil {
			return cfg, err
		}
		cfg.Failover = append(cfg.Failover, failover)
	}
	if len(cfg.Sites) == 0 {
		cfg.Sites = []sites.Site{{}}
	}
	for i := range cfg.Sites {
		settings := &cfg.Sites[i].Settings
		settings.Replicas, settings.EventsBytes, settings.DrivesBytes = s.Replicas, s.EventsMiB<<20, s.DrivesMiB<<20
	}
	return cfg, nil
}

// Run is called by kong.
func (m *migrate) Run(ctx context.Context, log *slog.Logger) error {
	db, err := store.Open(ctx, m.Database, store.Options{})
	if err != nil {
		return err
	}
	n, err := db.Migrate(ctx)
	if err == nil {
		log.Info("database schema is up to date", "database", db.Engine(), "migrations", n)
	}
	return errors.Join(err, db.Close())
}
