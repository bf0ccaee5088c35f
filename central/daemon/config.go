// Package daemon wires central together: store, bus, roster, relay, ingest and the
// API, with one listener for the API and one for observation.
//
// It may import all of central and protocol. Run owns everything that it starts:
// when it returns, no goroutine, connection or listener of it is left.
package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/groupkeys"
	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/roster"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/strangers"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Config of central.
type Config struct {
	// Database is "sqlite:PATH" or "postgres://…".
	Database string
	// Listen is the API's address, HOST:PORT.
	Listen string
	// Observe is the address of /metrics, /healthz and /readyz; empty: they are on
	// the API's listener.
	Observe string
	// PublicEndpoint is what links in answers begin with; empty: the host that the
	// request names.
	PublicEndpoint string
	// CORSOrigins are those, SCHEME://HOST[:PORT], whose pages may use the API from a browser.
	CORSOrigins []string
	// NoVNC is a folder with noVNC, of which a page for people is made; empty: there is none.
	NoVNC string
	// Hosts are names by which clients may address an API that serves everybody, besides
	// addresses, localhost and the public endpoint's; "*": every name. On loopback others
	// are refused; elsewhere only if there are any.
	Hosts []string
	// Access says who may use the API; its zero value lets everybody do everything.
	Access Access
	// TLSCert and TLSKey are PEM files, read again when they change; empty: plain HTTP.
	TLSCert, TLSKey string
	// EnrolListen is the address where servers and rackds join, over TLS; empty: nobody
	// can. Nothing of the API is there. Without TLSCert the fleet's authority makes the
	// certificate, also the API's when that listens beyond loopback.
	EnrolListen string
	// InsecureNoAuth allows an API without authentication on an address that is
	// not loopback.
	InsecureNoAuth bool

	// NoRamdiskEndpoints, LookupAnyState and DisallowedSteps are those of the API.
	NoRamdiskEndpoints, LookupAnyState bool
	DisallowedSteps                    []string
	// Nodes is what the installation wants of its nodes otherwise than by default.
	Nodes api.NodeSettings

	// MaxRequests bounds how many requests of known callers the API works on at once; 0: its default,
	// negative: no bound.
	MaxRequests int
	// Strangers is what callers who are not known may cost; its zero value: the defaults.
	Strangers strangers.Budget
	// LockWait is how long a request waits for other work on its node to end; 0: 3 s,
	// negative: not at all.
	LockWait time.Duration
	// TrustedProxies are those of which is believed who asks and for what (api.Config).
	TrustedProxies []netip.Prefix
	// AuditKeep is for how long lines of the audit are kept; 0: for ever.
	AuditKeep time.Duration
	// KeepHistory is how many lines of a node's history are kept, and KeepWorks for how long rows of works that
	// have ended; 0: retention's defaults; below 0: for ever.
	KeepHistory int
	KeepWorks   time.Duration
	// NotificationLevel is from which level notifications are published on the bus:
	// "debug", "info", "warning" or "error"; empty: none is.
	NotificationLevel string
	// KeepChanges is how many changes are kept for streams that come back; 0: 100,000.
	KeepChanges int

	// Key closes secrets in the database.
	Key *seal.Key
	// KeyPace is how fast the keys of conductor groups are replaced; zero: as usual.
	KeyPace groupkeys.Pace

	// Conn is a connection to the bus which the caller keeps; nil: Run connects to
	// BusURL, with the credentials file BusCreds or the token BusToken, or, with
	// EnrolListen and neither of them, with credentials of the fleet's authority.
	Conn                       *nats.Conn
	BusURL, BusCreds, BusToken string
	Sites                      []sites.Site
	Failover                   []sites.Failover

	// Inspection processes what inspections find; nil: by the default settings.
	Inspection *inspection.Processor
	// Discovery is what becomes of machines that nobody has enrolled; its zero value: nothing.
	Discovery api.Discovery

	// OrphanGrace is how long a node may have no rackd that could serve it before its
	// work, past its deadline, is ended; 0: 15 min.
	OrphanGrace time.Duration

	// Reread asks for the files of users, rules and certificates to be looked at at once; nil:
	// they are looked at from time to time only.
	Reread <-chan os.Signal

	// Grace bounds how long requests in flight may take when central stops; 0: 10 s.
	Grace time.Duration
	Log   *slog.Logger // nil: slog.Default
}

// Info is what Run's ready function is told.
type Info struct {
	// Endpoint is the API's base URL, ObserveEndpoint that of /metrics.
	Endpoint        string
	ObserveEndpoint string
	// EnrolEndpoint is where members join, and Authority signs for them; nil without
	// EnrolListen.
	EnrolEndpoint string
	Authority     *enrol.Authority
	Store         *store.Store
	Roster        *roster.Roster
}

// maxReplicas is how many replicas JetStream keeps of a stream at most.
const maxReplicas = 5

func (c *Config) check() error {
	switch {
	case c.Database == "":
		return errors.New("central needs a database: sqlite:PATH or postgres://HOST/DATABASE")
	case c.Key == nil:
		return errors.New("central needs a secret key")
	case c.Conn == nil && c.BusURL == "":
		return errors.New("central needs the URL of its bus: nats://HOST:PORT")
	case c.OrphanGrace < 0:
		return fmt.Errorf("--orphan-grace %s: it cannot be negative", c.OrphanGrace)
	case !slices.Contains([]string{"", "debug", "info", "warning", "error"}, c.NotificationLevel):
		return fmt.Errorf("--notification-level %q: want debug, info, warning or error", c.NotificationLevel)
	case c.KeepChanges < 0:
		return fmt.Errorf("--keep-changes %d: it cannot be negative", c.KeepChanges)
	case c.AuditKeep < 0:
		return fmt.Errorf("--audit-keep %s: it cannot be negative", c.AuditKeep)
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together: give both or neither")
	}
	if err := cmp.Or(c.Nodes.Check(), c.Discovery.Check(), c.Strangers.Check()); err != nil {
		return err
	}
	if c.PublicEndpoint != "" {
		if u, err := url.Parse(c.PublicEndpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return fmt.Errorf("--public-endpoint %q: want a URL, http(s)://HOST[:PORT][/PATH]", c.PublicEndpoint)
		}
	}
	for _, step := range c.DisallowedSteps {
		// One that no step is called by would forbid nothing.
		if kind, name, ok := strings.Cut(step, "."); step != "" && (!ok || name == "" || !slices.Contains(node.InterfaceKinds, kind)) {
			return fmt.Errorf("--disallow-step %q: write INTERFACE.STEP, such as vendor.send_raw; interfaces are %s", step, strings.Join(node.InterfaceKinds, ", "))
		}
	}
	for _, s := range c.Sites {
		if n := s.Settings.Replicas; n < 0 || n > maxReplicas {
			return fmt.Errorf("--replicas %d: NATS keeps 1 to %d replicas of a bucket or stream", n, maxReplicas)
		}
	}
	if c.NoRamdiskEndpoints && c.Discovery.Driver != "" {
		return errors.New("--discovery-driver needs the endpoints that --no-ramdisk-endpoints switches off: leave out one of the two")
	}
	for _, origin := range c.CORSOrigins {
		if err := new(http.CrossOriginProtection).AddTrustedOrigin(origin); err != nil {
			return fmt.Errorf("--cors-origin %q: %w; write SCHEME://HOST[:PORT], as browsers send it", origin, err)
		}
	}
	for _, name := range c.Hosts {
		if err := checkHost(name); err != nil {
			return err
		}
	}
	local, err := loopback(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen %q: %w", c.Listen, err)
	}
	if !c.InsecureNoAuth && !local && c.Access.open() {
		return fmt.Errorf("central does not listen on %s without authentication: choose a strategy with --auth, listen on a loopback address, "+
			"or give --insecure-no-auth if all who reach that address may do everything", c.Listen)
	}
	shown, err := bus.ShowURLs(c.BusURL)
	if err != nil && c.Conn == nil {
		return err
	}
	if c.ownBus() {
		if !strings.HasPrefix(c.BusURL, "tls://") {
			return fmt.Errorf("--bus %s: with --enrol-listen the bus is at tls://HOST:PORT, unless central has credentials for it (--bus-creds, --bus-token-file)", shown)
		}
	}
	if err := c.early(); err != nil {
		return err
	}
	if c.Grace == 0 {
		c.Grace = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}

// loopback reports whether an address is reached from this machine only.
func loopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// ownBus reports whether the bus knows central by the fleet's authority.
func (c *Config) ownBus() bool {
	return c.EnrolListen != "" && c.Conn == nil && c.BusCreds == "" && c.BusToken == ""
}

// busAuthority is a, where the bus knows central by it.
func (c *Config) busAuthority(a *enrol.Authority) *enrol.Authority {
	if c.ownBus() {
		return a
	}
	return nil
}
