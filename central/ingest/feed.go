package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// feed hands the events of a site on in the order of its stream.
//
// The consumer alone does not keep it: what was on its way to somebody who is gone,
// or over a link that broke, is delivered again after ackWait only, and what the
// stream took in meanwhile comes first. So a feed knows which event is next. When a
// later one comes, those between are either acknowledged, because somebody else has
// applied them, or they are read from the stream and applied before it. Then all
// replicas apply the events in one order, whoever reads how much of them, and what
// is applied twice is dropped.
//
// A feed belongs to one goroutine.
type feed struct {
	site     string
	stream   jetstream.Stream
	consumer jetstream.Consumer
	arriving *arrivals
	apply    func(ctx context.Context, events []jetstream.Msg) error
	backlog  func(Backlog) // is told what waits
	trim     *trimmer      // nil: nothing is removed

	next uint64 // all before it are applied, by whomever
}

// answerWithin bounds what the site is asked.
const answerWithin = 5 * time.Second

// collect waits for an event and takes those that follow within gather.
func (f *feed) collect(ctx context.Context, gather time.Duration) ([]jetstream.Msg, error) {
	// When nobody answers, the site is away, or it has lost the consumer, which no
	// waiting would bring back.
	first, err := f.arriving.next(ctx, func() error { return f.there(ctx) })
	if err != nil {
		return nil, err
	}
	batch := append(make([]jetstream.Msg, 0, batchEvents), first)
	end := time.NewTimer(gather)
	defer end.Stop()
	for len(batch) < batchEvents {
		select {
		case m := <-f.arriving.events:
			batch = append(batch, m)
		case <-end.C:
			return batch, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return batch, nil
}

// there fails when the site says that the consumer, or its stream, does not exist.
func (f *feed) there(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_, err := f.consumer.Info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return nil // it may be away; the next missing heartbeat asks again
}

// resume begins where the consumer stands. What it has delivered to somebody who has
// not acknowledged it, and may never, is read again at once.
func (f *feed) resume(ctx context.Context) error {
	info, err := f.info(ctx)
	if err != nil {
		return err
	}
	f.next = info.AckFloor.Stream + 1
	if info.NumAckPending == 0 {
		return nil
	}
	return f.fill(ctx, info.Delivered.Stream+1)
}

func (f *feed) info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return f.consumer.Info(ctx)
}

// take applies a batch, in the order of the stream, with whatever belongs before it
// or into it, and acknowledges it.
func (f *feed) take(ctx context.Context, batch []jetstream.Msg) error {
	about := make(map[jetstream.Msg]*jetstream.MsgMetadata, len(batch))
	for _, m := range batch {
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		about[m] = meta
	}
	slices.SortFunc(batch, func(a, b jetstream.Msg) int {
		return cmp.Compare(about[a].Sequence.Stream, about[b].Sequence.Stream)
	})
	first, last := about[batch[0]], about[batch[len(batch)-1]]
	if first.Sequence.Stream < f.next {
		if err := f.whole(ctx); err != nil {
			return err
		}
	}
	f.backlog(behind(first, last, len(batch)))
	var row []jetstream.Msg // those that follow each other from next on
	for _, m := range batch {
		seq := about[m].Sequence.Stream
		if expected := f.next + uint64(len(row)); seq < expected {
			continue // delivered again
		} else if seq > expected {
			if err := f.advance(ctx, row); err != nil {
				return err
			}
			if row = nil; f.missed(ctx, seq) {
				if err := f.fill(ctx, seq); err != nil {
					return err
				}
			}
			f.next = seq
		}
		row = append(row, m)
	}
	if err := f.advance(ctx, row); err != nil {
		return err
	}
	for _, m := range batch {
		if err := m.Ack(); err != nil {
			return fmt.Errorf("acknowledge: %w", err) // it comes again and is dropped then
		}
	}
	pointAcknowledged.Hit(f.site)
	if f.trim != nil {
		f.trim.took(ctx, batch, f.next)
	}
	f.backlog(behind(last, last, 0))
	return nil
}

// whole fails when the stream ends before what was read of it. It has come back from an older copy
// then: what it numbers anew is not what was delivered under these numbers before.
func (f *feed) whole(ctx context.Context) error {
	info, err := f.stored(ctx, f.next)
	if err == nil && info.LastSeq+1 < f.next {
		err = fmt.Errorf("the bus has come back from an older copy: its events end with number %d, and %d has been read", info.LastSeq, f.next-1)
	}
	return err
}

// advance applies events that follow each other from next on.
func (f *feed) advance(ctx context.Context, row []jetstream.Msg) error {
	if len(row) == 0 {
		return nil
	}
	if err := f.apply(ctx, row); err != nil {
		return err
	}
	f.next += uint64(len(row))
	return nil
}

// missed reports whether there may be events from next to seq that nobody has applied.
func (f *feed) missed(ctx context.Context, seq uint64) bool {
	info, err := f.info(ctx)
	if err != nil {
		return true // reading them twice does no harm
	}
	f.next = max(f.next, info.AckFloor.Stream+1)
	return f.next < seq
}

// fill reads from the stream what lies from next to before end, and applies it. What the
// stream has and does not hand over is an error: it is not passed over.
func (f *feed) fill(ctx context.Context, end uint64) error {
	info, err := f.stored(ctx, end)
	if err != nil {
		return err
	}
	f.next = max(f.next, info.FirstSeq) // it may have dropped what is too old
	last := min(end-1, info.LastSeq)
	for f.next <= last {
		part, err := f.read(ctx, last)
		if len(part) == 0 {
			held, asked := f.holds(ctx, last)
			if asked == nil && !held {
				break // the rest has been deleted
			}
			return fmt.Errorf("read events %d to %d again, of which nothing comes: %w", f.next, last, cmp.Or(asked, err, errUnread))
		}
		if err := f.apply(ctx, part); err != nil {
			return err
		}
		meta, err := part[len(part)-1].Metadata()
		if err != nil {
			return err
		}
		f.next = meta.Sequence.Stream + 1
	}
	f.next = max(f.next, end)
	return nil
}

// errUnread: the site has events that it did not hand over.
var errUnread = errors.New("the site is slow, and is asked once more")

// stored is what the stream says that it has; end-1 is known to have been in it. It may have
// lost its end. But a server that led the stream until it was held up does not know what came
// meanwhile, and goes on answering for a moment: it is given settled to hear of it.
func (f *feed) stored(ctx context.Context, end uint64) (jetstream.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for began := time.Now(); ; {
		info, err := f.stream.Info(ctx)
		if err != nil {
			return jetstream.StreamState{}, err
		}
		if info.State.LastSeq+1 >= end || time.Since(began) >= settled {
			return info.State, nil
		}
		select {
		case <-time.After(settled / 10):
		case <-ctx.Done():
			return jetstream.StreamState{}, ctx.Err()
		}
	}
}

const settled = 2 * time.Second

// holds reports whether the stream has an event from next to last. It does not ask for that event,
// which central may not.
func (f *feed) holds(ctx context.Context, last uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	info, err := f.stream.Info(ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return false, err
	}
	for seq := max(f.next, info.State.FirstSeq); seq <= min(last, info.State.LastSeq); seq++ {
		if !slices.Contains(info.State.Deleted, seq) {
			return true, nil
		}
	}
	return false, nil
}

// read returns events from next on, up to last, a batch of them at most, without a gap. That
// it returns fewer, or none, proves nothing: the client library waits a while for the site and
// then says that this was all. With an error it may still return some. The library's ordered consumer is none for this: until its server
// answers it is made again for ever, whatever the context says.
func (f *feed) read(ctx context.Context, last uint64) ([]jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	consumer, err := f.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: f.next, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute})
	if err != nil {
		return nil, err
	}
	fetched, err := consumer.Fetch(int(min(last-f.next+1, batchEvents)), jetstream.FetchContext(ctx))
	if err != nil {
		return nil, err
	}
	var part []jetstream.Msg
	for m := range fetched.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		if meta.Sequence.Stream > last || meta.Sequence.Consumer != uint64(len(part)+1) {
			break // one before it was lost on its way
		}
		part = append(part, m)
	}
	return part, fetched.Error()
}
