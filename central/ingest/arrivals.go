package ingest

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// arrivals are the events that a consumer delivers, in the order in which they come.
//
// jetstream's iterator keeps them in a channel with room for what it has asked for, and
// the client library drops what finds none. There may be more: when a replica's place
// as the one who reads lapses, the server refuses each request that still waits, and
// after each refusal as much is asked for again. What was dropped would come again after
// ackWait. A handler has no such bound: what it has no time for waits in memory.
type arrivals struct {
	events chan jetstream.Msg
	// silent: nobody answers our requests.
	silent chan struct{}
	// gone: the consumer or the connection is, and nothing comes any more.
	gone chan error

	consuming jetstream.ConsumeContext
	stopped   chan struct{}
	stop      sync.Once
}

// arrive begins to read; the caller calls close.
func arrive(consumer jetstream.Consumer) (*arrivals, error) {
	a := &arrivals{events: make(chan jetstream.Msg, batchEvents), silent: make(chan struct{}, 1), gone: make(chan error, 1), stopped: make(chan struct{})}
	var err error
	a.consuming, err = consumer.Consume(a.take, jetstream.PullPriorityGroup(pinGroup), jetstream.PullMaxMessages(batchEvents),
		jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(heartbeat), jetstream.ConsumeErrHandler(a.complain))
	return a, err
}

// take hands on one event. While nobody has time for it no more are asked for.
func (a *arrivals) take(m jetstream.Msg) {
	select {
	case a.events <- m:
	case <-a.stopped:
	}
}

func (a *arrivals) complain(_ jetstream.ConsumeContext, err error) {
	switch {
	case errors.Is(err, jetstream.ErrNoHeartbeat):
		select {
		case a.silent <- struct{}{}:
		default:
		}
	case errors.Is(err, jetstream.ErrConsumerDeleted), errors.Is(err, jetstream.ErrBadRequest), errors.Is(err, jetstream.ErrConnectionClosed):
		select {
		case a.gone <- err:
		default:
		}
	} // the others it deals with
}

// next waits for an event; silent is called when nobody answers.
func (a *arrivals) next(ctx context.Context, silent func() error) (jetstream.Msg, error) {
	for {
		select {
		case m := <-a.events:
			return m, nil
		case <-a.silent:
			if err := silent(); err != nil {
				return nil, err
			}
		case err := <-a.gone:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// close ends it; what has come and was not taken comes to whoever reads next.
func (a *arrivals) close() {
	a.stop.Do(func() { close(a.stopped) })
	a.consuming.Stop()
}
