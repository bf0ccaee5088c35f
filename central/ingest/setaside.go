package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
)

// The bounds of what is set aside for a site. A rack can send what cannot be read, so few of
// those are kept, and of each only its beginning; more are dropped and counted. An event that
// the database refuses is kept whole. While mostRefused of them are kept, others wait. A rack can also make up what no
// database could take: that gets a part of the room only, and is dropped and counted beyond it.
const (
	MostUnreadable  = 200
	unreadableBytes = 16 << 10
	MostUnfit       = 500
	mostRefused     = 1000
)

// Reasons are why events are set aside.
var Reasons = []string{string(unreadable), string(refused)}

// contentError says that an event cannot be applied for what is in it, before any database is
// asked.
type contentError struct{ error }

func (e contentError) Unwrap() error { return e.error }

// blames reports whether err says that the content of the event is at fault, and not the
// state of the database.
func (g *Ingest) blames(err error) bool {
	return isContent(err) || g.cfg.Store.Refuses(err)
}

// isContent reports whether err needs no second attempt: no database had a part in it.
func isContent(err error) bool {
	_, content := errors.AsType[contentError](err)
	return content
}

// drop counts an event that can never be applied, and for which there is no room any more: to wait for room would
// let the rackd that makes such events hold up all others of its site.
func (g *Ingest) drop(site string, e placed, cause error) {
	g.relieved(site)
	g.cfg.Metrics.EventsDropped.WithLabelValues(site, string(refused)).Inc()
	g.loud.Do(func() {
		g.cfg.Log.Error("event dropped: it can never be applied, and too many are set aside; see 'central event list'", "site", site, "subject", e.subject, "error", cause)
	})
}

// setAside keeps an event that the database refuses. The transaction also writes the node as it
// is and a line of its history, as every event does: where even that is refused, the event is
// not proven to be the cause. It returns nil then, and the event has to wait.
func (g *Ingest) setAside(ctx context.Context, site string, e placed, cause error) (*store.SetAside, error) {
	kept, most := false, mostRefused
	if isContent(cause) {
		most = MostUnfit
	}
	a := &store.SetAside{Site: site, Place: e.place, Subject: e.subject, Node: e.Node, Kind: string(e.Kind), Reason: string(refused), Error: cause.Error(), Body: e.raw}
	err := g.cfg.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		nodes, err := tx.Observed(ctx, []string{e.Node})
		if err != nil {
			return err
		}
		if kept, err = tx.SetAside(ctx, a, most); err != nil || !kept {
			return err
		}
		n := nodes[e.Node]
		if n == nil {
			return nil
		}
		if err := tx.SaveObserved(ctx, []*store.Node{n}); err != nil {
			return err
		}
		return tx.AppendHistory(ctx, &store.HistoryEntry{Node: e.Node, Revision: n.Revision, CreatedAt: time.Now().UTC(), Severity: "ERROR", EventType: "monitoring",
			Event: fmt.Sprintf("What the rack reported (%s) could not be stored and was set aside as event %s: see 'central event list'", e.Kind, a.ID)})
	})
	if err != nil || !kept {
		return nil, err
	}
	g.cfg.Metrics.EventsSetAside.WithLabelValues(site, string(refused)).Inc()
	g.cfg.Log.Error("event set aside: the database refuses it; see 'central event list'", "site", site, "event", a.ID, "node", e.Node, "kind", string(e.Kind), "error", cause)
	return a, nil
}

// unread is an event that could not be read.
type unread struct {
	msg   jetstream.Msg
	place uint64
	err   error
}

// keepUnread sets aside what could not be read, again until the database takes it.
func (g *Ingest) keepUnread(ctx context.Context, site string, list []unread) error {
	if len(list) == 0 {
		return nil
	}
	for delay := firstDelay; ; delay = min(2*delay, longestDelay) {
		kept := 0
		err := g.cfg.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			kept = 0
			for _, u := range list {
				body := u.msg.Data()
				a := &store.SetAside{Site: site, Place: u.place, Subject: u.msg.Subject(), Node: nodeOf(u.msg.Subject()), Reason: string(unreadable), Error: u.err.Error(), Body: body}
				if len(body) > unreadableBytes {
					a.Body, a.Error = body[:unreadableBytes], fmt.Sprintf("%s (only the first %d of %d bytes are kept)", a.Error, unreadableBytes, len(body))
				}
				ok, err := tx.SetAside(ctx, a, MostUnreadable)
				if err != nil {
					return err
				}
				if !ok {
					break // nor is there room for those behind it
				}
				kept++
			}
			return nil
		})
		if err == nil {
			for i, u := range list {
				what, reason := "unreadable event set aside; see 'central event list'", g.cfg.Metrics.EventsSetAside
				if i >= kept {
					what, reason = "unreadable event dropped: too many are set aside; see 'central event list'", g.cfg.Metrics.EventsDropped
				}
				reason.WithLabelValues(site, string(unreadable)).Inc()
				g.loud.Do(func() { g.cfg.Log.Error(what, "site", site, "subject", u.msg.Subject(), "error", u.err) })
			}
			return nil
		}
		g.troubled(site, len(list), err)
		if err := wait(ctx, delay); err != nil {
			return err
		}
	}
}

// nodeOf is the node that an event's subject names.
func nodeOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// Replay applies an event that was set aside, as if it came now, and forgets it then. The
// answer is Applied, or why it changes nothing, being older than what was applied since;
// then it stays, for an operator to drop.
func (g *Ingest) Replay(ctx context.Context, a *store.SetAside) (string, error) {
	e, err := parse(a.Subject, a.Body)
	if err != nil {
		return "", fmt.Errorf("event %s cannot be read: %w", a.ID, err)
	}
	defer g.cfg.Calls.Open(ctx, g.cfg.Log)()
	out, err := g.apply(ctx, a.Site, []placed{{Event: e, place: a.Place, subject: a.Subject, raw: a.Body}})
	if err != nil {
		return "", fmt.Errorf("event %s is refused again: %w", a.ID, err)
	}
	for _, lie := range out.lies {
		return "", fmt.Errorf("event %s is not believed: %w", a.ID, lie.why)
	}
	for why := range out.dropped {
		return string(why), nil
	}
	err = g.cfg.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.DropSetAside(ctx, a.ID) })
	return Applied, err
}

// Applied is Replay's answer when the event was applied.
const Applied = "applied"

// Stuck is why events of a site wait although they are in hand.
type Stuck struct {
	Since  time.Time
	Events int
	Err    error // of the last attempt
}

func (s *Stuck) Error() string {
	return fmt.Sprintf("%d events are in hand and have not been applied since %s: %v", s.Events, s.Since.UTC().Format(time.RFC3339), s.Err)
}

// Stuck returns why events of a site that are in hand wait; nil: none does.
func (g *Ingest) Stuck(site string) *Stuck {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stuck[site]
}

// troubled notes, counts and logs an attempt that failed.
func (g *Ingest) troubled(site string, events int, err error) {
	g.cfg.Metrics.IngestErrors.WithLabelValues(site).Inc()
	g.spells.Tried(g.cfg.Log, "to apply events of site "+site, err, "events", events)
	g.mu.Lock()
	defer g.mu.Unlock()
	since := time.Now()
	if was := g.stuck[site]; was != nil {
		since = was.Since
	}
	g.stuck[site] = &Stuck{Since: since, Events: events, Err: err}
}

// relieved notes that the database has taken events.
func (g *Ingest) relieved(site string) {
	g.spells.Tried(g.cfg.Log, "to apply events of site "+site, nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.stuck, site)
}

// How long insist waits after the first failure, and at most.
const (
	firstDelay   = 50 * time.Millisecond
	longestDelay = 5 * time.Second
)

// wait returns after d, or with ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
