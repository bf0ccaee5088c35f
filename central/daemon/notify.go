package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
)

// newFeed makes the feed, and what publishes notifications where that is asked for. With
// a connection for each site there is none for central's own messages: replicas then
// look by themselves, and notifications are in the API's streams only.
func newFeed(cfg *Config, db *store.Store, b *buses) (*feed.Feed, *publisher) {
	c := feed.Config{Store: db, Log: cfg.Log, Keep: int64(cfg.KeepChanges)}
	p := &publisher{conn: b.shared, level: cfg.NotificationLevel, log: cfg.Log}
	if b.shared != nil {
		c.Hints = hints{b.shared}
	}
	switch {
	case p.level == "":
	case b.shared != nil:
		c.Publish = p.publish
	default:
		cfg.Log.Warn("notifications are not published on the bus: central has an account at each site and none of its own; GET /v1/notifications has them")
	}
	return feed.New(c), p
}

// hints passes hints between replicas of central over the bus.
type hints struct{ conn *nats.Conn }

// Tell publishes; without the bus the others look by themselves within a second.
func (h hints) Tell() { _ = h.conn.Publish(bus.ChangesHint, nil) }

// Hear calls f for each hint.
func (h hints) Hear(f func()) (func(), error) {
	sub, err := h.conn.Subscribe(bus.ChangesHint, func(*nats.Msg) { f() })
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil // with the connection it ends anyway
}

// publisher publishes notifications on the bus, as far as level says.
type publisher struct {
	conn  *nats.Conn
	level string
	log   *slog.Logger
	// render is the API's, which is made after the feed.
	render func(context.Context, []*store.Change, string) ([]api.Notification, error)
}

// publish returns when the bus has taken what is told of the changes. While the bus is away it sends
// nothing: the client would keep it for later, when it is published once more.
func (p *publisher) publish(ctx context.Context, changes []*store.Change) error {
	if !p.conn.IsConnected() {
		return errors.New("central has no connection to the bus")
	}
	list, err := p.render(ctx, changes, p.level)
	if err != nil || len(list) == 0 {
		return err
	}
	for _, n := range list {
		switch err := p.conn.Publish(bus.NotificationSubject(n.Type), n.Body); {
		case errors.Is(err, nats.ErrMaxPayload): // it never will be
			p.log.Warn("a notification is too large for the bus; GET /v1/notifications has it", "number", n.Seq, "type", n.Type, "bytes", len(n.Body))
		case err != nil:
			return fmt.Errorf("publish notification %d: %w", n.Seq, err)
		}
	}
	if err := p.conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("the bus has not confirmed the notifications %d to %d: %w", list[0].Seq, list[len(list)-1].Seq, err)
	}
	return nil
}
