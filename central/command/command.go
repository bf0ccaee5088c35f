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

Without --auth every caller is an administrator, and central listens on a
loopback address only. With accounts it may listen anywhere:

  central serve … --listen :6385 --tls-cert api.pem --tls-key api.key --auth http_basic --htpasswd /etc/ironyard/users

'ironyard dev' runs central, a bus and a rackd in one process, with nothing to prepare.

Exit codes: 0 done, or ended by SIGTERM; 1 it failed, and standard error says why; 80 the command line
cannot be read.`

type flags struct {
	Serve   serve         `cmd:"" help:"Run central until SIGTERM."`
	Migrate migrate       `cmd:"" help:"Bring the database schema up to date and exit. 'serve' does the same when it starts."`
	Key     keyCommand    `cmd:"" help:"Make a secret key, or seal the database with a new one."`
	Token   tokenCommand  `cmd:"" help:"Make, list and revoke tokens. Servers and rackds join the fleet with them."`
	Member  memberCommand `cmd:"" help:"List and revoke the fleet's members."`
	Event   eventCommand  `cmd:"" help:"List the events of racks that could not be stored, and apply them later."`

	LogJSON bool `help:"Write the log as JSON." env:"CENTRAL_LOG_JSON" name:"log-json"`
	Debug   bool `help:"Write debug messages to the log." env:"CENTRAL_DEBUG"`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

type database struct {
	Database string `help:"Database: sqlite:PATH on one machine, or postgres://… for PostgreSQL and CockroachDB. All users of a machine can read command lines: give a password in the environment variable or in the file that PGPASSFILE names." required:"" env:"CENTRAL_DATABASE" placeholder:"URL"`
}

type serve struct {
	database
	Listen  string `help:"Address of the API." default:"127.0.0.1:6385" env:"CENTRAL_LISTEN"`
	Observe string `help:"Address of /metrics, /healthz and /readyz. Empty: the address of the API." env:"CENTRAL_OBSERVE"`
	keyFile
	records
	access
	PublicEndpoint string        `help:"Base URL of links in answers. Default: the host in the request." env:"CENTRAL_PUBLIC_ENDPOINT" placeholder:"URL"`
	Host           []string      `help:"Host name that requests to an API without authentication may carry. May be repeated; '*' allows every name. IP addresses, localhost and the host of the public endpoint are always allowed. On loopback all other names are refused; elsewhere only if this flag is given." env:"CENTRAL_HOSTS" placeholder:"NAME"`
	CORSOrigin     []string      `help:"Origin (SCHEME://HOST[:PORT]) whose web pages may use the API. May be repeated." env:"CENTRAL_CORS_ORIGINS"`
	NoVNC          string        `help:"Folder with noVNC, such as /usr/share/novnc of Debian's package novnc: people see graphical consoles on a page below /console/ then." name:"novnc" type:"existingdir" placeholder:"FOLDER" env:"CENTRAL_NOVNC"`
	TLSCert        string        `help:"Certificate file, PEM." type:"existingfile" placeholder:"FILE" env:"CENTRAL_TLS_CERT"`
	TLSKey         string        `help:"Key file of the certificate, PEM." type:"existingfile" placeholder:"FILE" env:"CENTRAL_TLS_KEY"`
	EnrolListen    string        `help:"Address at which servers and rackds join with tokens, over TLS ('central token' makes tokens). Empty: joining is off." env:"CENTRAL_ENROL_LISTEN" placeholder:"HOST:6387"`
	InsecureNoAuth bool          `help:"Allow an API without authentication on an address that is not loopback. All who reach it may do everything." env:"CENTRAL_INSECURE_NO_AUTH"`
	NoRamdisk      bool          `help:"Refuse agents in ramdisks (lookup, heartbeat, continue_inspection) with 403." name:"no-ramdisk-endpoints" env:"CENTRAL_NO_RAMDISK_ENDPOINTS"`
	LookupAnyState bool          `help:"Let agents look up nodes without work under way." env:"CENTRAL_LOOKUP_ANY_STATE"`
	DisallowStep   []string      `help:"Step that requests may not name. May be repeated. Empty: none. Default: vendor.send_raw." default:"vendor.send_raw" env:"CENTRAL_DISALLOWED_STEPS" placeholder:"INTERFACE.STEP"`
	MaxRequests    int           `help:"Maximum number of concurrent requests of known callers; at most half are agents'. Further ones get 503 and may be repeated. Negative: no limit." default:"1000" env:"CENTRAL_MAX_REQUESTS"`
	LockWait       time.Duration `help:"Time that a request waits for other work on its node before it is refused with 409. Negative: no wait." default:"3s" env:"CENTRAL_LOCK_WAIT"`
	OrphanGrace    time.Duration `help:"Grace before central ends work whose deadline has passed and whose node no live rackd can serve." default:"15m" env:"CENTRAL_ORPHAN_GRACE"`
	Grace          time.Duration `help:"Time that requests in flight have to finish when central stops." default:"10s" env:"CENTRAL_GRACE"`

	Bus          string   `help:"URL of the hub's NATS server, or of the server of the only site." required:"" env:"CENTRAL_BUS" placeholder:"nats://HOST:4222" group:"Bus"`
	BusCreds     string   `help:"NATS credentials file." type:"existingfile" placeholder:"FILE" env:"CENTRAL_BUS_CREDS" group:"Bus"`
	BusTokenFile string   `help:"File with a NATS token." type:"existingfile" placeholder:"FILE" env:"CENTRAL_BUS_TOKEN_FILE" group:"Bus"`
	Site         []string `help:"Site (JetStream domain) and the conductor groups that it serves. May be repeated. A site without groups serves all other groups. Default: the bus is the only site." env:"CENTRAL_SITES" sep:";" placeholder:"NAME[=GROUP,…]" group:"Bus"`
	Failover     []string `help:"Conductor groups of the same site whose rackds serve a group's nodes, in order, while no rackd of that group is alive. May be repeated." env:"CENTRAL_FAILOVER" sep:";" placeholder:"GROUP=GROUP,…" group:"Bus"`
	EventsMiB    int64    `help:"Space for events in each site's store, in MiB per replica. Events that central has not applied are never dropped: when the space is full, rackds keep further events and wait." default:"512" env:"CENTRAL_SITE_EVENTS_MIB" name:"site-events-mib" placeholder:"MIB" group:"Bus"`
	DrivesMiB    int64    `help:"Space for config drives of work in flight, and of instances that read theirs from a virtual drive, in each site's store, in MiB per replica. When it is full, further deploys with a config drive wait." default:"512" env:"CENTRAL_SITE_DRIVES_MIB" name:"site-drives-mib" placeholder:"MIB" group:"Bus"`
	ConsolesMiB  int64    `help:"Space for copies of consoles' logs in each site's store, in MiB per replica. When it is full, the logs of further consoles end with their rackd." default:"512" env:"CENTRAL_SITE_CONSOLES_MIB" name:"site-consoles-mib" placeholder:"MIB" group:"Bus"`
	Replicas     int      `help:"Number of replicas of each bucket and stream of a site." default:"1" env:"CENTRAL_SITE_REPLICAS" group:"Bus"`

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
	cfg := daemon.Config{Database: s.Database, Listen: s.Listen, Observe: s.Observe, PublicEndpoint: s.PublicEndpoint, Hosts: s.Host, CORSOrigins: s.CORSOrigin, NoVNC: s.NoVNC,
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
			return cfg, fmt.Errorf("--bus-token-file: %w", err)
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
		settings.Replicas, settings.EventsBytes, settings.DrivesBytes, settings.ConsolesBytes = s.Replicas, s.EventsMiB<<20, s.DrivesMiB<<20, s.ConsolesMiB<<20
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
