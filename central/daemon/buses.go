package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/protocol/bus"
)

// buses are central's connections: one that reaches every site, or, where sites have
// accounts of the fleet's authority, one for each.
type buses struct {
	shared *nats.Conn
	sites  map[string]*nats.Conn
	ours   bool // to close
}

// connect connects to the bus; while it is away central serves what it can, and
// goes on when it is back. authority is nil where the bus is not its.
func connect(ctx context.Context, cfg *Config, authority *enrol.Authority) (*buses, error) {
	if cfg.Conn != nil {
		return &buses{shared: cfg.Conn}, nil
	}
	// A server that is gone without a word is noticed soon, and what is published while the bus
	// is away stays in the outbox.
	opts := append(bus.Lasting(cfg.Log), nats.Name("central"), nats.ReconnectWait(time.Second), nats.PingInterval(2*time.Second))
	b := &buses{sites: map[string]*nats.Conn{}, ours: true}
	if authority != nil {
		for _, site := range cfg.Sites {
			own, err := authority.BusOptions(ctx, site.Name)
			if err == nil {
				b.sites[site.Name], err = nats.Connect(cfg.BusURL, slices.Concat(opts, own)...)
			}
			if err != nil {
				b.close()
				return nil, fmt.Errorf("connect to the bus of site %s: %w", site.Name, err)
			}
		}
		return b, nil
	}
	if cfg.BusCreds != "" {
		opts = append(opts, nats.UserCredentials(cfg.BusCreds))
	}
	if cfg.BusToken != "" {
		opts = append(opts, nats.Token(cfg.BusToken))
	}
	var err error
	if b.shared, err = nats.Connect(cfg.BusURL, opts...); err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	return b, nil
}

// of returns the connection that reaches a site.
func (b *buses) of(site string) *nats.Conn {
	if b.shared != nil {
		return b.shared
	}
	return b.sites[site]
}

// away says why the bus cannot be reached, nil when it can.
func (b *buses) away() error {
	if b.shared != nil {
		return bus.Away(b.shared)
	}
	var errs []error
	for site, c := range b.sites {
		if err := bus.Away(c); err != nil {
			errs = append(errs, fmt.Errorf("connection for site %s: %w", site, err))
		}
	}
	return errors.Join(errs...)
}

// attend has complaints about the connections logged, and overflows counted by site.
func (b *buses) attend(overflowed func(site string), log *slog.Logger) {
	if b.shared != nil {
		bus.Attend(b.shared, log, func() { overflowed("") })
	}
	for site, c := range b.sites {
		bus.Attend(c, log.With("site", site), func() { overflowed(site) })
	}
}

func (b *buses) close() {
	if !b.ours {
		return
	}
	if b.shared != nil {
		b.shared.Close()
	}
	for _, c := range b.sites {
		c.Close()
	}
}
