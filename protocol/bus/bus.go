// Package bus names everything that lies on a site's bus: buckets, keys, the
// event stream and its subjects, and opens them. It also holds the roster entry
// that a rackd renews under ALIVE.
//
// It may import protocol packages and nats.go. A bus belongs to one site; central
// reaches each site's through that site's JetStream domain. Replicas and fsync are
// the site's settings, never a caller's. What a document is about, and whose it is, its
// subject or key says: identity.go reads all that lies on a bus.
package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Names on a site's bus.
const (
	NodesBucket  = "NODES"
	WorkBucket   = "WORK"
	AliveBucket  = "ALIVE"
	GroupsBucket = "GROUPS"
	ConfigDrives = "CONFIGDRIVES" // object store
	// ConsolesBucket has copies of consoles' logs. A site works without it: Open does not make it, MakeConsoles does.
	ConsolesBucket = "CONSOLES"
	EventsStream   = "EVENTS"
	// AllEvents are the subjects of EVENTS.
	AllEvents = EventsStream + ".>"
	// IngestConsumer is central's durable consumer of EVENTS.
	IngestConsumer = "central-ingest"
)

// Lease times.
const (
	// LeaseTTL is how long an ALIVE key lives without renewal.
	LeaseTTL = 3 * time.Second
	// LeaseRenew is how often it is renewed.
	LeaseRenew = time.Second
	// LeaseMargin is how long before the key could expire its holder stops
	// starting side effects.
	LeaseMargin = 500 * time.Millisecond
)

// Member is the value of an ALIVE key: a rackd that lives.
type Member struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
	// Drivers maps each enabled hardware type to the implementations it offers
	// for each kind of interface, best first.
	Drivers map[string]map[string][]string `json:"drivers"`
	// AgentURL and BootURL are the base URLs that machines of the rack use.
	AgentURL string `json:"agent_url,omitempty"`
	BootURL  string `json:"boot_url,omitempty"`
	// BootTLSURL is BootURL by TLS, for firmware; empty: it does not serve so.
	BootTLSURL string `json:"boot_tls_url,omitempty"`
	// AgentURL6 and BootURL6 are those of machines that speak IPv6; empty: the rackd has no IPv6 address.
	AgentURL6 string `json:"agent_url6,omitempty"`
	BootURL6  string `json:"boot_url6,omitempty"`
	// Further are those of machines in further networks of the rackd, which may not reach the others.
	Further []MemberURLs `json:"further,omitempty"`
	Version string       `json:"version"`
	// Documents is the newest form of node documents that it reads (node.Format).
	Documents int `json:"documents,omitempty"`
	// Keys are the ids of the generations that it has of each group's key, by group in lower case, the
	// one that it seals with first (seal.Keyring.IDs); nil: it does not say.
	Keys      map[string][]string `json:"keys,omitempty"`
	StartedAt time.Time           `json:"started_at"`
	RenewedAt time.Time           `json:"renewed_at"`
	// Instance changes with each start, so that a restart is told from a renewal.
	Instance string `json:"instance"`
	// Lease is the id of the lease: it changes with each announcement and stays with
	// each renewal. Work documents name the lease under which they were taken.
	Lease string `json:"lease,omitempty"`
	// Edition grows each time that this instance says something else of itself than before, renewals aside. Beats
	// name it. 0: the rackd is of before editions.
	Edition int `json:"edition,omitempty"`
}

// MemberURLs are where machines of one network find a rackd.
type MemberURLs struct {
	AgentURL string `json:"agent_url"`
	BootURL  string `json:"boot_url"`
}

// Group is the value of a GROUPS key: what central's configuration says of a
// conductor group. Only central writes it; a group without an entry has no failover.
type Group struct {
	Name string `json:"name,omitempty"`
	// Failover are the groups whose rackds serve this group's nodes while none of its
	// own lives, in order. They are of the same site.
	Failover []string `json:"failover,omitempty"`
	// Keys are the ids of the generations of the group's key that central hands out, the one that it
	// seals with first. A rackd that has others renews. Empty: central does not say.
	Keys []string `json:"keys,omitempty"`
}

// GroupKey is the key of a conductor group in GROUPS.
func GroupKey(group string) string { return GroupToken(group) }

// GroupToken is a conductor group as a subject token: group names may hold dots
// and may be empty, tokens may not.
func GroupToken(group string) string {
	if group == "" {
		return "="
	}
	return strings.ReplaceAll(strings.ToLower(group), ".", "=2E")
}

// NodeKey is the key of a node in NODES and WORK.
func NodeKey(group, uuid string) string { return GroupToken(group) + "." + uuid }

// NodeOfKey returns the node's UUID of a key in NODES or WORK.
func NodeOfKey(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// MemberKey is the key of a rackd in ALIVE. Rackd names are made safe the way
// groups are.
func MemberKey(group, rackd string) string { return GroupToken(group) + "." + GroupToken(rackd) }

// EventSubject is where a rackd publishes an event about a node.
func EventSubject(group, node string) string {
	return EventsStream + "." + GroupToken(group) + "." + node
}

// AskSubject is where a rackd answers central's questions (protocol/ask).
func AskSubject(group, rackd string) string {
	return "ASK." + GroupToken(group) + "." + GroupToken(rackd)
}

// HandOnSubject is where a rackd hears what another rackd was told about nodes of a
// conductor group: the nodes' group, not the rackd's, so that a rackd can be allowed to
// speak about the groups that it serves and about no other.
func HandOnSubject(group, rackd string) string {
	return "HANDON." + GroupToken(group) + "." + GroupToken(rackd)
}

// GroupOfHandOn returns the group of a HandOnSubject.
func GroupOfHandOn(subject string) string {
	token, _, _ := strings.Cut(strings.TrimPrefix(subject, "HANDON."), ".")
	return groupOfToken(token)
}

// Site is an open bus of one site. Safe for concurrent use.
type Site struct {
	Name   string // JetStream domain; empty on one machine
	Conn   *nats.Conn
	JS     jetstream.JetStream
	Nodes  jetstream.KeyValue
	Work   jetstream.KeyValue
	Alive  jetstream.KeyValue
	Groups jetstream.KeyValue
	Drives jetstream.ObjectStore
	Events jetstream.Stream
	// CheckEvery, if set before the first Follow, is how often Follow asks whether a bucket is still the one that it
	// reads; 0: every 5 s.
	CheckEvery time.Duration
	// Trouble, if set before the first Follow, is told why a bucket is read anew.
	Trouble func(bucket string, err error)
	// Refused, if set before the first reader, is told of each document that was not taken
	// (see Refuse); lies: it says what its place does not allow.
	Refused func(bucket string, lies bool)

	refusals           refusals
	beats              beats
	nodes, work, event appender
	consoles           atomic.Int64 // the bytes that MakeConsoles has asked the site for
}

// Settings of a site's buckets and stream.
type Settings struct {
	// Replicas of each bucket and the stream: 1 on one machine, 3 on a cluster; 0
	// leaves what is there as it is and makes what is missing with as many as the rest
	// has, with 1 when there is nothing.
	Replicas int
	// EventsMaxAge bounds how long events wait for central.
	EventsMaxAge time.Duration
	// EventsBytes bounds what the stream of events may hold, DrivesBytes the config drives; 0:
	// DefaultEventsBytes and DefaultDrivesBytes. A stream that is full takes nothing more, so
	// that nothing in it is lost, and leaves the rest of the store to leases and work.
	EventsBytes, DrivesBytes int64
	// ConsolesBytes bounds the copies of consoles' logs; 0: DefaultConsolesBytes. A bucket that is full takes no further
	// console's copy, and drops none.
	ConsolesBytes int64
	// OpenOnly makes nothing: Open waits for what is missing. It is for those who may
	// not make it.
	OpenOnly bool
	// Waiting, if set, is told why Open tries again.
	Waiting func(err error)

	// usual is how many replicas what is there has.
	usual func(context.Context) (int, error)
}

// The defaults of Settings. Their sum is what a site's servers keep free for these two; what
// they have besides is for the buckets, which hold one document for each node and rackd.
const (
	DefaultEventsBytes = 512 << 20
	DefaultDrivesBytes = 512 << 20
	// DefaultConsolesBytes is for some 10,000 consoles, each with a copy as large as any may be.
	DefaultConsolesBytes = 512 << 20
)

// DrivesMaxAge is how long a config drive lies on the bus at most. Central removes it when the
// work that needs it has ended.
const DrivesMaxAge = 30 * 24 * time.Hour

// Open connects to the buckets and the stream of site (a JetStream domain, empty
// for the server's own), creating what is missing. A request that gets no answer (a
// cluster that elects a leader, a link that is not up yet) is made again until ctx
// ends. The caller keeps nc and closes it.
func Open(ctx context.Context, nc *nats.Conn, site string, s Settings) (*Site, error) {
	js, err := open(nc, site)
	if err != nil {
		return nil, err
	}
	if s.EventsMaxAge == 0 {
		s.EventsMaxAge = 7 * 24 * time.Hour
	}
	s.EventsBytes, s.DrivesBytes = cmp.Or(s.EventsBytes, DefaultEventsBytes), cmp.Or(s.DrivesBytes, DefaultDrivesBytes)
	b := &Site{Name: site, Conn: nc, JS: js}
	for _, a := range []*appender{&b.nodes, &b.work, &b.event} {
		a.conn, a.js = nc, js
	}
	s.usual = b.usualReplicas
	if err := b.open(ctx, s); err != nil {
		return nil, fmt.Errorf("site %q: %w", site, err)
	}
	return b, nil
}

// usualReplicas is the most that any of the buckets and the stream has, 1 when there is none:
// what was lost alone comes back like the others.
func (s *Site) usualReplicas(ctx context.Context) (int, error) {
	most := 1
	for _, name := range []string{"KV_" + NodesBucket, "KV_" + WorkBucket, "KV_" + AliveBucket, "KV_" + GroupsBucket, "OBJ_" + ConfigDrives, EventsStream} {
		stream, err := s.JS.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
		case err != nil:
			return 0, err
		default:
			most = max(most, stream.CachedInfo().Config.Replicas)
		}
	}
	return most, nil
}

func open(nc *nats.Conn, site string) (js jetstream.JetStream, err error) {
	if site == "" {
		js, err = jetstream.New(nc)
	} else {
		js, err = jetstream.NewWithDomain(nc, site)
	}
	if err != nil {
		return nil, fmt.Errorf("open JetStream of site %q: %w", site, err)
	}
	return js, nil
}

func (s *Site) open(ctx context.Context, set Settings) (err error) {
	if s.Nodes, err = s.bucket(ctx, NodesBucket, 0, set); err != nil {
		return err
	}
	if s.Work, err = s.bucket(ctx, WorkBucket, 0, set); err != nil {
		return err
	}
	if s.Alive, err = s.bucket(ctx, AliveBucket, time.Minute, set); err != nil {
		return err
	}
	if s.Groups, err = s.bucket(ctx, GroupsBucket, 0, set); err != nil {
		return err
	}
	drives := jetstream.ObjectStoreConfig{Bucket: ConfigDrives, Replicas: set.Replicas, TTL: DrivesMaxAge}
	s.Drives, err = ensure(ctx, set, func(ctx context.Context) (jetstream.ObjectStore, error) { return s.JS.ObjectStore(ctx, ConfigDrives) }, jetstream.ErrBucketNotFound,
		func(ctx context.Context, replicas int) (jetstream.ObjectStore, error) {
			drives.Replicas = replicas
			return within(ctx, s.JS, "OBJ_"+ConfigDrives, set.DrivesBytes, func(limit int64) (jetstream.ObjectStore, error) {
				drives.MaxBytes = limit
				return s.JS.CreateOrUpdateObjectStore(ctx, drives)
			})
		})
	if err != nil {
		return fmt.Errorf("open object store %s: %w", ConfigDrives, err)
	}
	// Like a bucket, a stream that is made anew goes on above all numbers that were:
	// central knows by its number which event it has applied.
	events := jetstream.StreamConfig{Name: EventsStream, Subjects: []string{AllEvents}, Storage: jetstream.FileStorage,
		Retention: jetstream.LimitsPolicy, MaxAge: set.EventsMaxAge, Discard: jetstream.DiscardNew, Duplicates: 10 * time.Minute, AllowAtomicPublish: true}
	s.Events, err = ensure(ctx, set, func(ctx context.Context) (jetstream.Stream, error) { return s.JS.Stream(ctx, EventsStream) }, jetstream.ErrStreamNotFound,
		func(ctx context.Context, replicas int) (jetstream.Stream, error) {
			events.Replicas = replicas
			stream, err := s.JS.Stream(ctx, EventsStream)
			switch {
			case err == nil:
				events.FirstSeq = stream.CachedInfo().Config.FirstSeq
				return within(ctx, s.JS, EventsStream, set.EventsBytes, func(limit int64) (jetstream.Stream, error) {
					events.MaxBytes = limit
					return s.JS.UpdateStream(ctx, events)
				})
			case !errors.Is(err, jetstream.ErrStreamNotFound):
				return nil, err
			}
			events.FirstSeq = firstRevision(time.Now())
			stream, err = within(ctx, s.JS, EventsStream, set.EventsBytes, func(limit int64) (jetstream.Stream, error) {
				events.MaxBytes = limit
				return s.JS.CreateStream(ctx, events)
			})
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody was faster
				return s.JS.Stream(ctx, EventsStream)
			}
			return stream, err
		})
	if err != nil {
		return fmt.Errorf("open stream %s: %w", EventsStream, err)
	}
	s.event.plain.Store(!s.Events.CachedInfo().Config.AllowAtomicPublish)
	for name, a := range map[string]*appender{NodesBucket: &s.nodes, WorkBucket: &s.work} {
		stream, err := persist(ctx, set, func(ctx context.Context) (jetstream.Stream, error) { return s.JS.Stream(ctx, "KV_"+name) })
		if err != nil {
			return fmt.Errorf("look at bucket %s: %w", name, err)
		}
		a.plain.Store(!stream.CachedInfo().Config.AllowAtomicPublish)
	}
	return nil
}

// bucket opens a bucket. One that is made, perhaps in place of one that was lost,
// begins with a revision that is above all that were: whoever has read a key of the
// lost bucket finds that it has changed, and not, by accident, that it is as it was.
func (s *Site) bucket(ctx context.Context, name string, markers time.Duration, set Settings) (jetstream.KeyValue, error) {
	cfg := jetstream.KeyValueConfig{Bucket: name, History: 1, Storage: jetstream.FileStorage, LimitMarkerTTL: markers, MaxValueSize: maxStored}
	existing := func(ctx context.Context) (jetstream.KeyValue, error) { return s.JS.KeyValue(ctx, name) }
	kv, err := ensure(ctx, set, existing, jetstream.ErrBucketNotFound,
		func(ctx context.Context, replicas int) (jetstream.KeyValue, error) {
			cfg.Replicas = replicas
			stream, err := s.JS.Stream(ctx, "KV_"+name)
			switch {
			case err == nil:
				// The first revision stays as it is, or a server that has not made the stream
				// yet would begin elsewhere than the others.
				now := stream.CachedInfo().Config
				if now.Replicas == replicas && now.MaxMsgSize == cfg.MaxValueSize && now.SubjectDeleteMarkerTTL == markers && now.AllowAtomicPublish {
					return existing(ctx)
				}
				want := streamOf(cfg, time.Now())
				want.FirstSeq = now.FirstSeq
				_, err = s.JS.UpdateStream(ctx, want)
			case errors.Is(err, jetstream.ErrStreamNotFound):
				if _, err = s.JS.CreateStream(ctx, streamOf(cfg, time.Now())); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
					err = nil // somebody was faster
				}
			}
			if err != nil {
				return nil, err
			}
			return existing(ctx)
		})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return kv, nil
}

// firstRevision is the first number in a stream that is made at a moment: microseconds
// since 1970, which no stream reaches by writes. Those of one minute are alike: replicas
// that make a stream at the same time must ask for the same thing, or the servers of a
// cluster may not agree on what to make.
func firstRevision(at time.Time) uint64 { return uint64(at.Truncate(time.Minute).UnixMicro()) }

// streamOf is the stream of a bucket that is made at a moment, as nats.go makes it but
// that it takes batches, and for its first revision.
func streamOf(cfg jetstream.KeyValueConfig, at time.Time) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: "KV_" + cfg.Bucket, Subjects: []string{"$KV." + cfg.Bucket + ".>"}, MaxMsgsPerSubject: int64(cfg.History),
		MaxBytes: -1, MaxMsgSize: cfg.MaxValueSize, MaxMsgs: -1, MaxConsumers: -1, Storage: cfg.Storage, Replicas: cfg.Replicas,
		AllowRollup: true, DenyDelete: true, AllowDirect: true, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute,
		AllowMsgTTL: cfg.LimitMarkerTTL > 0, SubjectDeleteMarkerTTL: cfg.LimitMarkerTTL, AllowAtomicPublish: true, FirstSeq: firstRevision(at)}
}

// errNotMade means that what Open looks for is another's to make.
var errNotMade = errors.New("central has not made it yet")

// ensure makes or changes a thing to fit s, or, when s leaves the replicas open,
// takes it as it is and makes it only when it is missing.
func ensure[T any](ctx context.Context, s Settings, existing func(context.Context) (T, error), missing error,
	make func(ctx context.Context, replicas int) (T, error)) (T, error) {
	return persist(ctx, s, func(ctx context.Context) (T, error) {
		if s.Replicas > 0 {
			return make(ctx, s.Replicas)
		}
		got, err := existing(ctx)
		switch {
		case !errors.Is(err, missing):
			return got, err
		case s.OpenOnly:
			return got, fmt.Errorf("%w: %w", errNotMade, err)
		}
		replicas, err := s.usual(ctx)
		if err != nil {
			return got, err
		}
		return make(ctx, replicas)
	})
}

// How long one request of Open may take, and how long it waits before the next.
const (
	answerWithin = 2 * time.Second
	askAgain     = 250 * time.Millisecond
)

// persist calls f until it gets an answer or ctx ends.
func persist[T any](ctx context.Context, s Settings, f func(context.Context) (T, error)) (T, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, answerWithin)
		got, err := f(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || !unanswered(err) {
			return got, err
		}
		if s.Waiting != nil {
			s.Waiting(err)
		}
		t := time.NewTimer(askAgain)
		select {
		case <-ctx.Done():
			t.Stop()
			return got, err
		case <-t.C:
		}
	}
}

// unanswered reports whether a request may be answered when it is made again.
func unanswered(err error) bool {
	if errors.Is(err, errNotMade) { // whose cause may be the server's answer that it has none
		return true
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503 && api.ErrorCode != jetstream.JSErrCodeJetStreamNotEnabled && api.ErrorCode != jetstream.JSErrCodeJetStreamNotEnabledForAccount
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}
