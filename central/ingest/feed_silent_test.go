package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// slow is a site of which little comes: of what the n-th read asks for only what deliver says.
type slow struct {
	jetstream.Stream
	deliver func(n int, of []jetstream.Msg) []jetstream.Msg
	reads   int
	base    uint64   // of the sequence numbers here
	ends    []uint64 // where the stream ends by its own account, one answer after the other
}

func (s *slow) CreateConsumer(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := s.Stream.CreateConsumer(ctx, c)
	return slowConsumer{consumer, s}, err
}

func (s *slow) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := s.Stream.Info(ctx, opts...)
	if err == nil && len(s.ends) > 0 {
		info.State.LastSeq, s.ends = s.base+s.ends[0], s.ends[1:]
	}
	return info, err
}

type slowConsumer struct {
	jetstream.Consumer
	of *slow
}

func (c slowConsumer) Fetch(n int, opts ...jetstream.FetchOpt) (jetstream.MessageBatch, error) {
	batch, err := c.Consumer.Fetch(n, opts...)
	if err != nil {
		return nil, err
	}
	got := slices.Collect(func(yield func(jetstream.Msg) bool) {
		for m := range batch.Messages() {
			if !yield(m) {
				return
			}
		}
	})
	c.of.reads++
	return arrived(c.of.deliver(c.of.reads, got)), nil
}

// arrived is a batch that has come, and ended without an error.
type arrived []jetstream.Msg

func (a arrived) Messages() <-chan jetstream.Msg {
	c := make(chan jetstream.Msg, len(a))
	for _, m := range a {
		c <- m
	}
	close(c)
	return c
}

func (arrived) Error() error { return nil }

// What the stream holds is applied, each event once and in order, or reported: nothing is
// passed over because a read has ended without it.
func TestNothingIsPassedOverThatDidNotCome(t *testing.T) {
	t.Parallel()
	all := func(_ int, of []jetstream.Msg) []jetstream.Msg { return of }
	for name, c := range map[string]struct {
		deliver func(n int, of []jetstream.Msg) []jetstream.Msg
		ends    []uint64
		deleted []uint64
		want    string
		refused bool
	}{
		"all comes":                  {deliver: all, want: "3 4 5 6 7"},
		"nothing comes":              {deliver: func(int, []jetstream.Msg) []jetstream.Msg { return nil }, refused: true},
		"nothing comes but a little": {deliver: func(n int, of []jetstream.Msg) []jetstream.Msg { return of[:max(0, 2-n)] }, want: "3", refused: true},
		"it comes bit by bit":        {deliver: func(_ int, of []jetstream.Msg) []jetstream.Msg { return of[:1] }, want: "3 4 5 6 7"},
		"one is lost on its way": {deliver: func(n int, of []jetstream.Msg) []jetstream.Msg {
			if n == 1 {
				return slices.Delete(of, 1, 2)
			}
			return of
		}, want: "3 4 5 6 7"},
		"the first is lost on its way":            {deliver: func(_ int, of []jetstream.Msg) []jetstream.Msg { return of[1:] }, refused: true},
		"some were deleted":                       {deliver: all, deleted: []uint64{4, 7}, want: "3 5 6"},
		"all were deleted":                        {deliver: all, deleted: []uint64{3, 4, 5, 6, 7}},
		"a server that was held up answers first": {deliver: all, ends: []uint64{4, 5}, want: "3 4 5 6 7"},
		"the stream has lost its end":             {deliver: all, ends: slices.Repeat([]uint64{4}, 50), want: "3 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := bustest.Open(t)
			for i := range 8 {
				if err := site.Publish(t.Context(), bus.EventSubject("g", "n"), fmt.Sprint(i), []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			info, err := site.Events.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			base := info.State.FirstSeq - 1
			for _, seq := range c.deleted {
				if err := site.Events.DeleteMsg(t.Context(), base+seq); err != nil {
					t.Fatal(err)
				}
			}
			var applied []string
			f := &feed{site: "s", stream: &slow{Stream: site.Events, deliver: c.deliver, base: base, ends: slices.Clone(c.ends)}, next: base + 3,
				apply: func(_ context.Context, events []jetstream.Msg) error {
					for _, m := range events {
						meta, err := m.Metadata()
						if err != nil {
							return err
						}
						applied = append(applied, fmt.Sprint(meta.Sequence.Stream-base))
					}
					return nil
				}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = f.fill(ctx, base+8)
			if got := strings.Join(applied, " "); got != c.want || (err != nil) != c.refused {
				t.Errorf("applied %q, error %v; want %q, an error: %t", got, err, c.want, c.refused)
			}
			if !c.refused && f.next != base+8 {
				t.Errorf("the next is %d, want %d", f.next, base+8)
			}
		})
	}
}

// dies is a site whose server dies when it has made a consumer.
type dies struct {
	jetstream.Stream
	kill func()
}

func (d dies) CreateConsumer(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := d.Stream.CreateConsumer(ctx, c)
	d.kill()
	return consumer, err
}

// OrderedConsumer is what reads asked for before: they fail the test below.
func (d dies) OrderedConsumer(ctx context.Context, c jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := d.Stream.OrderedConsumer(ctx, c)
	d.kill()
	return consumer, err
}

// A central that is told to stop stops, also while it reads events again from a server that has died.
func TestAReadEndsWithItsContextWhenTheServerDies(t *testing.T) {
	t.Parallel()
	srv := bustest.Listen(t, t.TempDir(), server.RANDOM_PORT)
	nc, err := nats.Connect(srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	site, err := bus.Open(t.Context(), nc, "", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := site.Publish(t.Context(), bus.EventSubject("g", "n"), fmt.Sprint(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &feed{site: "s", next: 1, stream: dies{site.Events, func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		time.AfterFunc(100*time.Millisecond, cancel)
	}}}
	ended := make(chan error, 1)
	go func() {
		_, err := f.read(ctx, 2)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the events of a dead server were read")
		}
	case <-time.After(time.Minute):
		t.Error("the read outlives its context by a minute")
	}
}
