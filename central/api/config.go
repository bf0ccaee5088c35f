package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/ironyard/ironyard/central/allocation"
	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/console"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/strangers"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Config is what the API needs. Store, Roster, Ask and Key are required.
type Config struct {
	Store  *store.Store
	Roster dispatch.Roster
	Ask    dispatch.Asker
	Key    *seal.Key // of the database
	// Groups are the keys of the conductor groups; nil: those of Key, none of which was ever replaced.
	Groups dispatch.GroupKeys
	Log    *slog.Logger
	Now    func() time.Time
	// Away says why the site of a conductor group cannot be reached, nil when it can.
	// nil: every site can always be reached.
	Away func(group string) error
	// PublicEndpoint is what links begin with; empty: the host that the request names.
	PublicEndpoint string
	// Auth says who asks; nil: everybody may do everything.
	Auth auth.Strategy
	// Policy returns the rules as they are now; nil: the defaults.
	Policy func() *policy.Rules
	// NoSelfService: a project's administrators may neither create nor delete nodes of their own.
	NoSelfService bool
	// DisallowedSteps are those, as "interface.step", that no list of steps may name; nil:
	// vendor.send_raw.
	DisallowedSteps []string
	Nodes           NodeSettings
	Discovery       Discovery
	// Inspection processes what discovered machines send; nil: by the default settings.
	Inspection *inspection.Processor
	// Calls makes the calls that inspection rules ask for then; nil: none is made.
	Calls *inspection.Caller
	// NoRamdiskEndpoints: agents in ramdisks are not served here (403).
	NoRamdiskEndpoints bool
	// LookupAnyState: agents may look up nodes on which nothing is being done.
	LookupAnyState bool
	// CORSOrigins are the origins whose pages may use the API from a browser.
	CORSOrigins []string
	// MaxRequests bounds how many requests of callers who are known are worked on at once, half of them of agents; 0:
	// DefaultMaxRequests, negative: no bound.
	MaxRequests int
	// Strangers is what callers who are not known may cost; nil: the defaults.
	Strangers *strangers.Gate
	// LockWait is how long a request waits for the end of work on its node before it is
	// refused because of that; not positive: not at all. At most a quarter of MaxRequests wait.
	LockWait time.Duration
	// Audit is told how requests that may change something end; nil: nobody is.
	Audit Recorder
	// Feed hands out changes to streams; nil: there are no streams.
	Feed *feed.Feed
	// Consoles counts the sessions of consoles; nil: no metric does.
	Consoles console.Metrics
	// ConsolePage is the path below which people see a node's graphical console, by its UUID; empty: there is no page.
	ConsolePage string
	// Stopping ends the sessions of consoles when it is closed, as requests in flight are not waited for there; nil: never.
	Stopping <-chan struct{}
	// TrustedProxies are those of which is believed who asks (X-Forwarded-For), and for
	// what (Forwarded, X-Forwarded-Proto, -Host and -Prefix). Default: none.
	TrustedProxies []netip.Prefix

	// routed, in tests, is told which route each request takes.
	routed func(*Route)
}

// Recorder keeps the audit. Ended is called once for each request, before its client
// hears of the end; cause.Audit says what the request is, Status in it what was expected.
//
// RefusedStranger is called in its place where a caller who is not known was refused, once for an address and a minute.
type Recorder interface {
	RefusedStranger(cause *store.Cause, status int, errText string)
	Ended(ctx context.Context, cause *store.Cause, status int, errText string)
}

var errPanic = errors.New("handler panicked")

// New makes the handler. Without Auth its caller listens on loopback only, unless an
// operator insists.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Auth == nil {
		c.Auth = auth.NoAuth{}
	}
	if c.Policy == nil {
		defaults := policy.Default("")
		c.Policy = func() *policy.Rules { return defaults }
	}
	if c.Away == nil {
		c.Away = func(string) error { return nil }
	}
	if c.Inspection == nil {
		c.Inspection = inspection.Default()
	}
	if c.Calls == nil {
		c.Calls = new(inspection.Caller)
	}
	if c.Strangers == nil {
		c.Strangers = strangers.New(strangers.Budget{}, nil)
	}
	c.Discovery.Most = cmp.Or(c.Discovery.Most, DefaultDiscoveries)
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Server{Config: c, crossSite: http.NewCrossOriginProtection(), encoded: encodedNodes{now: c.Now}, inWork: newInWork(c.MaxRequests),
		anew: make(chan struct{}, pagesAnew()), bodies: newBodyRoom(DefaultBodyBytes), consoles: console.NewSessions(c.Consoles), strangers: c.Strangers, agents: newKnownAgents(c.Now)}
	s.lockWaits.max, s.fromRamdisks = s.inWork.max/4, s.inWork.half()
	for _, origin := range c.CORSOrigins {
		if err := s.crossSite.AddTrustedOrigin(origin); err != nil {
			c.Log.Error("origin is not trusted", "origin", origin, "error", err)
		}
	}
	s.dispatch = &dispatch.Dispatcher{Store: c.Store, Roster: c.Roster, Ask: c.Ask, Key: c.Key, Groups: c.Groups, Now: c.Now, Log: c.Log, Away: c.Away, DisallowedSteps: c.DisallowedSteps, Limits: c.Nodes.Limits}
	s.allocator = &allocation.Allocator{Store: c.Store}
	s.resources = s.list()
	s.router = newRouter(s.resources)
	s.document = sync.OnceValue(func() []byte { return s.describe(s.resources) }) // most servers are never asked
	return s
}
