package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Ping returns nil when the site's bus answers: its server, its JetStream and its
// ALIVE bucket. It costs some 230 bytes of the WAN.
func (s *Site) Ping(ctx context.Context) error {
	if _, err := s.Alive.Get(ctx, "ping"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		return err
	}
	return nil
}

// Answers returns nil when a site's JetStream answers on nc, whether its bus is set
// up or not.
func Answers(ctx context.Context, nc *nats.Conn, site string) error {
	js, err := open(nc, site)
	if err != nil {
		return err
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("ask JetStream of site %q: %w", site, err)
	}
	return nil
}
