package daemon

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// buses are central's connections: one that reaches every site.
type buses struct {
	conn *nats.Conn
	ours bool // to close
}

// connect connects to the bus; while it is away central serves what it can, and
// goes on when it is back.
func connect(cfg *Config) (*buses, error) {
	if cfg.Conn != nil {
		return &buses{conn: cfg.Conn}, nil
	}
	opts := []nats.Option{nats.Name("central"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second),
		// A server that is gone without a word is noticed soon, and while the bus is away
		// what is published fails at once: the outbox keeps it.
		nats.Timeout(2 * time.Second), nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				cfg.Log.Warn("bus is away", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { cfg.Log.Info("bus is back", "server", c.ConnectedServerName()) })}
	if cfg.BusCreds != "" {
		opts = append(opts, nats.UserCredentials(cfg.BusCreds))
	}
	if cfg.BusToken != "" {
		opts = append(opts, nats.Token(cfg.BusToken))
	}
	conn, err := nats.Connect(cfg.BusURL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	return &buses{conn: conn, ours: true}, nil
}

// of returns the connection that reaches a site.
func (b *buses) of(string) *nats.Conn { return b.conn }

// away says why the bus cannot be reached, nil when it can.
func (b *buses) away() error {
	if b.conn.IsConnected() {
		return nil
	}
	return fmt.Errorf("%s (%v)", b.conn.Status(), b.conn.LastError())
}

func (b *buses) close() {
	if b.ours {
		b.conn.Close()
	}
}
