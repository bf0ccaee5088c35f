package bus

import (
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Lasting returns the options of a connection that its program keeps until it ends, also
// where the bus is started later, is away, or refuses it: credentials that are refused
// may be known to the servers in a moment. What is published while the bus is away fails
// at once. log is told why an attempt failed, each reason once until the bus is back.
func Lasting(log *slog.Logger) []nats.Option {
	r := &reasons{log: log, told: map[string]bool{}}
	return []nats.Option{nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(-1),
		nats.Timeout(2 * time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectErrHandler(r.tell),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: it was closed on purpose
				log.Warn("bus is away", "error", err)
			}
		}),
		nats.ConnectHandler(func(*nats.Conn) { r.forget() }),
		nats.ReconnectHandler(func(c *nats.Conn) {
			r.forget()
			log.Info("bus is back", "url", c.ConnectedUrlRedacted())
		})}
}

// reasons are those why a bus could not be reached since it last was.
type reasons struct {
	log  *slog.Logger
	mu   sync.Mutex
	told map[string]bool
}

func (r *reasons) tell(c *nats.Conn, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || r.told[err.Error()] || c.IsClosed() {
		return
	}
	r.told[err.Error()] = true
	r.log.Warn("bus not reached, trying again", "error", err)
}

func (r *reasons) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.told)
}
