package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/trouble"
	"github.com/ironyard/ironyard/protocol/work"
)

// Config of an ingest.
type Config struct {
	Store   *store.Store
	Metrics *metrics.Metrics
	Log     *slog.Logger
	// SiteOf returns the site that serves a conductor group; nil: any site serves any.
	SiteOf func(group string) string
	// Key seals the secrets that inspection rules and racks set; nil: they may set none.
	Key *seal.Key
	// Groups are the keys of the conductor groups; nil: those of Key, none of which was ever replaced.
	Groups GroupKeys
	// Inspection processes what inspections found; nil: by the default settings.
	Inspection *inspection.Processor
	// Calls makes the calls that inspection rules ask for; nil: one of its own does.
	Calls *inspection.Caller
	// Correct has a node's machine brought back into a power state, if that is still on record and nothing speaks against it; nil:
	// what a machine is found in is recorded.
	Correct func(ctx context.Context, node, power string) error
}

// Ingest is safe for concurrent use.
type Ingest struct {
	cfg Config

	mu        sync.Mutex
	consumers map[string]source // by site
	backlogs  map[string]Backlog
	stuck     map[string]*Stuck
	spells    trouble.Spells // of sites whose events wait
	loud      rate.Sometimes // bounds the lines about events that cannot be read or applied
	advanced  chan struct{}  // closed after the next batch
}

// GroupKeys are the keys of conductor groups, under which racks seal.
type GroupKeys interface {
	// ForGroup fails while it is not known which generations count.
	ForGroup(group string) (*seal.Key, error)
}

// New returns an ingest that is idle until Follow.
func New(cfg Config) *Ingest {
	if cfg.Inspection == nil {
		cfg.Inspection = inspection.Default()
	}
	if cfg.Groups == nil && cfg.Key != nil {
		cfg.Groups = cfg.Key
	}
	if cfg.Calls == nil {
		cfg.Calls = new(inspection.Caller)
	}
	return &Ingest{cfg: cfg, consumers: map[string]source{}, backlogs: map[string]Backlog{}, stuck: map[string]*Stuck{}, advanced: make(chan struct{}),
		loud: rate.Sometimes{First: linesAtFirst, Interval: linesEvery}}
}

// Events that are dropped cost this many log lines and no more; the metrics count all.
const (
	linesAtFirst = 20
	linesEvery   = 10 * time.Second
)

// The places where a replica may die with a batch of events in its hands; the detail is
// the site's name.
var (
	pointApply        = failpoint.New("ingest.apply")        // before the events are applied
	pointApplied      = failpoint.New("ingest.applied")      // committed, not acknowledged
	pointAcknowledged = failpoint.New("ingest.acknowledged") // acknowledged
)

// A batch ends with batchEvents events or linger after its first. While events come
// in a crowd it gathers longer: what a crowd costs the database goes by batches, and
// one node among many is not watched that closely.
const (
	batchEvents = 256
	linger      = 25 * time.Millisecond
	crowd       = 16 // events in the batch before
	crowdLinger = 60 * time.Millisecond
)

// A site's events go to one replica while it pulls often enough, to another pinnedTTL
// after it has pulled last. Pulls and heartbeats cross the WAN also when nothing
// happens, so they are rare: a quiet site is nobody's, and its next event goes to
// whoever waits, which costs a look at where the consumer stands. ackWait is longer
// than any transaction.
const (
	pinGroup   = "central"
	pinnedTTL  = 10 * time.Second
	pullExpiry = 30 * time.Second
	heartbeat  = 10 * time.Second
	ackWait    = time.Minute
)

// Follow applies the events of site until ctx ends. An error means that the site has
// to be opened again: its stream or its consumer is gone.
func (g *Ingest) Follow(ctx context.Context, site *bus.Site) error {
	consumer, err := site.Events.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: bus.IngestConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 4 * batchEvents,
		DeliverPolicy: jetstream.DeliverAllPolicy, MaxDeliver: -1,
		PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{pinGroup}, PinnedTTL: pinnedTTL,
	})
	if err != nil {
		return fmt.Errorf("open consumer %s of site %q: %w", bus.IngestConsumer, site.Name, err)
	}
	defer g.cfg.Calls.Open(ctx, g.cfg.Log)()
	g.mu.Lock()
	g.consumers[site.Name] = source{site.Events, consumer}
	g.mu.Unlock()
	f := &feed{site: site.Name, stream: site.Events, consumer: consumer, trim: newTrimmer(site.Name, site.Events, g.cfg.Log),
		backlog: func(b Backlog) { g.setBacklog(site.Name, b) },
		apply:   func(ctx context.Context, events []jetstream.Msg) error { return g.ingest(ctx, site, events) }}
	if err := f.resume(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("events of site %q: %w", site.Name, err)
	}
	// Only now: what comes meanwhile would be read a first time by resume.
	if f.arriving, err = arrive(consumer); err != nil {
		return fmt.Errorf("read consumer %s of site %q: %w", bus.IngestConsumer, site.Name, err)
	}
	defer g.release(site)
	defer f.arriving.close()
	gather := linger
	for {
		batch, err := f.collect(ctx, gather)
		gather = linger
		if len(batch) >= crowd {
			gather = crowdLinger
		}
		if err == nil {
			err = f.take(ctx, batch)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("events of site %q: %w", site.Name, err)
		}
	}
}

// release lets another replica go on at once.
func (g *Ingest) release(site *bus.Site) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := site.Events.UnpinConsumer(ctx, bus.IngestConsumer, pinGroup); err != nil {
		g.cfg.Log.Debug("consumer not unpinned; another replica waits a little", "site", site.Name, "error", err)
	}
}

// ingest applies a batch, again until it works.
func (g *Ingest) ingest(ctx context.Context, from *bus.Site, batch []jetstream.Msg) error {
	m, site := g.cfg.Metrics, from.Name
	var events []placed
	var unreadable []unread
	for _, msg := range batch {
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("event of site %q: %w", site, err)
		}
		e, err := parse(msg.Subject(), msg.Data())
		switch {
		case errors.Is(err, bus.ErrLie):
			g.refuse(from, msg.Subject(), err)
			continue
		case err != nil:
			unreadable = append(unreadable, unread{msg, meta.Sequence.Stream, err})
			continue
		}
		events = append(events, placed{Event: e, place: meta.Sequence.Stream, stored: meta.Timestamp.UnixNano(), subject: msg.Subject(), raw: msg.Data()})
	}
	if err := g.keepUnread(ctx, site, unreadable); err != nil {
		return err
	}
	began := time.Now()
	pointApply.Hit(site)
	out, err := g.insist(ctx, site, events)
	if err != nil {
		return err
	}
	pointApplied.Hit(site)
	m.IngestSeconds.WithLabelValues(site).Observe(time.Since(began).Seconds())
	m.IngestBatch.WithLabelValues(site).Observe(float64(len(batch)))
	for kind, n := range out.applied {
		m.EventsApplied.WithLabelValues(site, string(kind)).Add(float64(n))
	}
	for why, n := range out.dropped {
		m.EventsDropped.WithLabelValues(site, string(why)).Add(float64(n))
		g.cfg.Log.Debug("events dropped", "site", site, "reason", string(why), "events", n)
	}
	for _, r := range out.lies {
		g.refuse(from, bus.EventSubject(r.event.Group, r.event.Node), r.why)
	}
	g.advance()
	return nil
}

// After patience failures for what events hold a batch is applied event by event, and an event
// that fails as often alone is set aside: one that no database takes must not hold up its site
// for ever. Any other trouble is the database's, and costs no event: they wait for its end.
const patience = 4

// insist tries until the database takes the events or ctx ends: order is kept by
// not going on without them.
func (g *Ingest) insist(ctx context.Context, site string, events []placed) (outcome, error) {
	if len(events) == 0 {
		return outcome{}, nil
	}
	delay := firstDelay
	for blamed := 0; ; {
		out, err := g.apply(ctx, site, events)
		if err == nil {
			g.relieved(site)
			return out, nil
		}
		if ctx.Err() != nil {
			return outcome{}, ctx.Err()
		}
		g.troubled(site, len(events), err)
		if blamed++; !g.blames(err) {
			blamed = 0
		}
		if content := isContent(err); content {
			blamed = patience // that no attempt will change
		}
		if blamed >= patience {
			if len(events) > 1 {
				return g.oneByOne(ctx, site, events)
			}
			switch aside, unproven := g.setAside(ctx, site, events[0], err); {
			case unproven == nil && aside == nil && isContent(err):
				g.drop(site, events[0], err)
				return outcome{}, nil
			case unproven != nil:
				g.cfg.Log.Warn("event not set aside: the database takes no other write of its node either", "site", site, "node", events[0].Node, "error", unproven)
			case aside != nil:
				g.relieved(site)
				// The trouble may have ended just before the proof: then the event was not to blame.
				if what, err := g.Replay(ctx, aside); err != nil || what != Applied {
					g.cfg.Log.Debug("event stays aside", "site", site, "event", aside.ID, "answer", what, "error", err)
				}
				return outcome{}, nil
			}
		}
		if err := wait(ctx, delay); err != nil {
			return outcome{}, err
		}
		delay = min(2*delay, longestDelay)
	}
}

func (g *Ingest) oneByOne(ctx context.Context, site string, events []placed) (outcome, error) {
	sum := outcome{applied: map[work.EventKind]int{}, dropped: map[dropped]int{}}
	for _, e := range events {
		out, err := g.insist(ctx, site, []placed{e})
		if err != nil {
			return outcome{}, err
		}
		for k, n := range out.applied {
			sum.applied[k] += n
		}
		for k, n := range out.dropped {
			sum.dropped[k] += n
		}
		sum.lies = append(sum.lies, out.lies...)
	}
	return sum, nil
}
