package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Update writes value under key of the bucket, NODES or WORK, if the key still is at
// revision, and returns the new one. Its errors are those of jetstream.KeyValue's Update;
// Conflict says of one that the key was not.
// Updates that come at the same time may share one write of the server to its disk.
func (b *Site) Update(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, revision uint64) (uint64, error) {
	return b.write(ctx, kv, b.message(kv, key, value, revision), func(ctx context.Context) (uint64, error) { return kv.Update(ctx, key, value, revision) })
}

// Purge puts a marker in place of key, as Update does.
func (b *Site) Purge(ctx context.Context, kv jetstream.KeyValue, key string, revision uint64) error {
	m := b.message(kv, key, nil, revision)
	m.Header.Set("KV-Operation", "PURGE")
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	_, err := b.write(ctx, kv, m, func(ctx context.Context) (uint64, error) {
		return 0, kv.Purge(ctx, key, jetstream.LastRevision(revision))
	})
	return err
}

func (b *Site) message(kv jetstream.KeyValue, key string, value []byte, revision uint64) *nats.Msg {
	prefix := "" // leads to the buckets of the site's domain
	if b.Name != "" {
		prefix = "$JS." + b.Name + ".API."
	}
	return &nats.Msg{Subject: prefix + "$KV." + kv.Bucket() + "." + key, Data: value, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(revision, 10)}}}
}

func (b *Site) write(ctx context.Context, kv jetstream.KeyValue, m *nats.Msg, alone func(context.Context) (uint64, error)) (uint64, error) {
	switch kv.Bucket() {
	case NodesBucket:
		return b.nodes.append(ctx, m, alone)
	case WorkBucket:
		return b.work.append(ctx, m, alone)
	}
	return alone(ctx)
}

// Publish puts an event into EVENTS, as Update does; the bus drops it when it has one
// with that id already. An empty id: it never does.
func (b *Site) Publish(ctx context.Context, subject, id string, body []byte) error {
	m := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{}}
	var opts []jetstream.PublishOpt
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
		opts = append(opts, jetstream.WithMsgID(id))
	}
	_, err := b.event.append(ctx, m, func(ctx context.Context) (uint64, error) {
		ack, err := b.JS.Publish(ctx, subject, body, opts...)
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	})
	return err
}

// appender appends messages to one stream for many callers at once. A message on its
// own is a sync of the server's disk; so those that come while others are on their way
// are sent together, as one atomic batch, which is synced once. A batch that the server
// refuses, because one of its messages is not to be, is sent again one by one, so that
// each caller hears what it would have heard alone. Safe for concurrent use.
type appender struct {
	conn *nats.Conn
	// plain: the stream takes no batches.
	plain atomic.Bool

	mu      sync.Mutex
	waiting []*appending
	busy    int // batches that are on their way
}

// The bounds of batches: the server takes 1,000 messages and 50 batches at a time.
const (
	batchMessages  = 256
	batchWorth     = 8 // messages: a batch costs the server a file of its own, and some five syncs
	batchBytes     = 4 << 20
	batchesAtOnce  = 1               // the fewer, the larger
	batchWithin    = 5 * time.Second // an answer
	messageOnWire  = 256             // bytes, besides its content
	atomicDisabled = 10174           // the server's error code
)

// appending is one message on its way.
type appending struct {
	ctx     context.Context
	message *nats.Msg
	alone   func(context.Context) (uint64, error)
	done    chan appended
}

type appended struct {
	sequence uint64
	err      error
}

// append appends m and returns its sequence number in the stream; alone does so without
// company.
func (a *appender) append(ctx context.Context, m *nats.Msg, alone func(context.Context) (uint64, error)) (uint64, error) {
	if a.plain.Load() {
		return alone(ctx)
	}
	p := &appending{ctx, m, alone, make(chan appended, 1)}
	a.mu.Lock()
	a.waiting = append(a.waiting, p)
	if a.busy < batchesAtOnce {
		a.busy++
		go a.lead()
	}
	a.mu.Unlock()
	select {
	case r := <-p.done:
		return r.sequence, r.err
	case <-ctx.Done():
		return 0, ctx.Err() // it may be appended all the same, as ever
	}
}

// lead sends what waits until nothing does.
func (a *appender) lead() {
	for {
		list := a.next()
		if len(list) == 0 {
			return
		}
		a.send(list)
	}
}

// send sends messages, together where that is worth it.
func (a *appender) send(list []*appending) {
	if len(list) < batchWorth {
		each(list)
	} else {
		a.together(list)
	}
}

// each sends messages one by one.
func each(list []*appending) {
	if len(list) == 1 {
		list[0].send()
		return
	}
	var all sync.WaitGroup
	for _, p := range list {
		all.Go(p.send)
	}
	all.Wait()
}

// send sends the message by itself.
func (p *appending) send() {
	sequence, err := p.alone(p.ctx)
	p.done <- appended{sequence, err}
}

// next takes a batch of those that wait for an answer.
func (a *appender) next() (list []*appending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size, taken := 0, 0
	for _, p := range a.waiting {
		if size += len(p.message.Data) + messageOnWire; len(list) > 0 && size > batchBytes || len(list) == batchMessages {
			break
		}
		if taken++; p.ctx.Err() == nil {
			list = append(list, p)
		}
	}
	if a.waiting = a.waiting[taken:]; len(list) == 0 {
		a.busy--
	}
	return list
}

// together sends a batch.
func (a *appender) together(list []*appending) {
	last, err := a.commit(list)
	switch api := (*jetstream.APIError)(nil); {
	case err == nil:
		for i, p := range list {
			p.done <- appended{sequence: last - uint64(len(list)-1-i)}
		}
	case errors.As(err, &api):
		if api.ErrorCode == atomicDisabled {
			a.plain.Store(true)
			each(list)
			return
		}
		half := len(list) / 2
		a.send(list[:half])
		a.send(list[half:])
	default:
		for _, p := range list {
			p.done <- appended{err: err}
		}
	}
}

// commit sends a batch and returns the sequence number of its last message. Those
// before it, in their order, have the numbers before it.
func (a *appender) commit(list []*appending) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), batchWithin)
	defer cancel()
	id := batchID()
	for i, p := range list {
		m := p.message
		m.Header.Set("Nats-Batch-Id", id)
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		m.Header.Del("Nats-Batch-Commit") // of a batch that was refused
		if i < len(list)-1 {
			if err := a.conn.PublishMsg(m); err != nil {
				return 0, err
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		answer, err := a.conn.RequestMsgWithContext(ctx, m)
		if err != nil {
			return 0, cmp.Or(noStream(err), err)
		}
		return committed(answer.Data, len(list))
	}
	return 0, nil
}

// batchID is a name for a batch that no other has while it is on its way. It is kept with each
// message, so it is short: 72 random bits.
func batchID() string {
	var b [9]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// noStream says of a request that nobody was there for what the client library says of it.
func noStream(err error) error {
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: %w", jetstream.ErrNoStreamResponse, err)
	}
	return nil
}

// committed reads the server's answer to a batch of n messages.
func committed(answer []byte, n int) (last uint64, err error) {
	var ack struct {
		Sequence uint64              `json:"seq"`
		Count    int                 `json:"count"`
		Error    *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(answer, &ack); {
	case err != nil:
		return 0, fmt.Errorf("the answer to a batch cannot be read: %w", err)
	case ack.Error != nil:
		return 0, ack.Error
	case ack.Count != n || ack.Sequence < uint64(n):
		return 0, fmt.Errorf("a batch of %d messages was answered as %d up to number %d", n, ack.Count, ack.Sequence)
	}
	return ack.Sequence, nil
}
