package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Update writes value under key of the bucket, NODES or WORK, if the key still is at
// revision (0: it never held anything), and returns the new one. Of an error Conflict says that the key
// was not, jetstream.ErrNoStreamResponse that nothing was written; after any other it may have been.
// Updates that come at the same time may share one write of the server to its disk.
func (s *Site) Update(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, revision uint64) (uint64, error) {
	r := s.UpdateAll(ctx, kv, []Write{{key, value, revision}})[0]
	return r.Revision, r.Err
}

// Write is what a key is to hold, if it still is at Revision.
type Write struct {
	Key      string
	Value    []byte
	Revision uint64
}

// Written is what became of a Write: the key's new revision, or an error.
type Written struct {
	Revision uint64
	Err      error
}

// UpdateAll writes many keys, each as Update does, whatever becomes of the others.
func (s *Site) UpdateAll(ctx context.Context, kv jetstream.KeyValue, writes []Write) []Written {
	list := make([]*nats.Msg, len(writes))
	for i, w := range writes {
		list[i] = s.message(kv, w)
	}
	return s.write(ctx, kv, list...)
}

// Purge puts a marker in place of key, as Update does; also of one that never held anything.
func (s *Site) Purge(ctx context.Context, kv jetstream.KeyValue, key string, revision uint64) error {
	m := s.message(kv, Write{Key: key, Revision: revision})
	m.Header.Set("KV-Operation", "PURGE")
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	return s.write(ctx, kv, m)[0].Err
}

func (s *Site) message(kv jetstream.KeyValue, w Write) *nats.Msg {
	prefix := "" // leads to the buckets of the site's domain
	if s.Name != "" {
		prefix = "$JS." + s.Name + ".API."
	}
	return &nats.Msg{Subject: prefix + "$KV." + kv.Bucket() + "." + w.Key, Data: w.Value, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(w.Revision, 10)}}}
}

func (s *Site) write(ctx context.Context, kv jetstream.KeyValue, list ...*nats.Msg) []Written {
	if kv.Bucket() == NodesBucket {
		return s.nodes.append(ctx, list...)
	}
	return s.work.append(ctx, list...)
}

// Publish puts an event into EVENTS, as Update does; the bus drops it when it has one
// with that id already. An empty id: it never does.
func (s *Site) Publish(ctx context.Context, subject, id string, body []byte) error {
	m := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{}}
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	return s.event.append(ctx, m)[0].Err
}

// appender appends messages to one stream for many callers at once. A message on its
// own is a sync of the server's disk; so those that come while others are on their way
// are sent together, as one atomic batch, which is synced once. A batch that the server
// refuses, because one of its messages is not to be, is sent again in halves, so that
// each caller hears what it would have heard alone. Safe for concurrent use.
type appender struct {
	conn *nats.Conn
	js   jetstream.JetStream
	// plain: the stream takes no batches.
	plain atomic.Bool

	mu      sync.Mutex
	waiting []appending
	busy    int // batches that are on their way
}

// The bounds of batches: the server takes 1,000 messages and 50 batches at a time.
const (
	batchMessages  = 512
	batchWorth     = 8 // messages: a batch costs the server a file of its own, and some five syncs
	batchBytes     = 4 << 20
	batchesAtOnce  = 1               // the fewer, the larger
	aloneAtOnce    = 128             // messages that are sent one by one
	batchWithin    = 5 * time.Second // an answer
	messageOnWire  = 256             // bytes, besides its content
	atomicDisabled = 10174           // the server's error code
)

// appending is one message on its way.
type appending struct {
	ctx     context.Context
	message *nats.Msg
	call    *call
	at      int // in the call
}

func (p appending) told(sequence uint64, err error) { p.call.told(p.at, Written{sequence, err}) }

// call is one of append, whose messages may go with different batches.
type call struct {
	all chan struct{} // closed when all have been told

	mu      sync.Mutex
	results []Written
	known   []bool
	left    int
}

func newCall(n int) *call {
	return &call{all: make(chan struct{}), results: make([]Written, n), known: make([]bool, n), left: n}
}

func (c *call) told(at int, w Written) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[at], c.known[at] = w, true
	if c.left--; c.left == 0 {
		close(c.all)
	}
}

// leave returns what is known; of the others, which may be appended all the same, err.
func (c *call) leave(err error) []Written {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := slices.Clone(c.results)
	for i := range results {
		if !c.known[i] {
			results[i].Err = err
		}
	}
	return results
}

// append appends messages and returns their sequence numbers in the stream.
func (a *appender) append(ctx context.Context, list ...*nats.Msg) []Written {
	if len(list) == 0 {
		return nil
	}
	c := newCall(len(list))
	sent := make([]appending, 0, len(list))
	for i, m := range list {
		if err := fits(m); err != nil {
			c.told(i, Written{Err: err})
			continue
		}
		sent = append(sent, appending{ctx, m, c, i})
	}
	if a.plain.Load() {
		a.each(sent)
		return c.results
	}
	a.mu.Lock()
	a.waiting = append(a.waiting, sent...)
	if a.busy < batchesAtOnce {
		a.busy++
		go a.lead()
	}
	a.mu.Unlock()
	select {
	case <-c.all:
		return c.results
	case <-ctx.Done():
		return c.leave(ctx.Err())
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
func (a *appender) send(list []appending) {
	if len(list) < batchWorth {
		a.each(list)
	} else {
		a.together(list)
	}
}

// each sends messages one by one, many at once.
func (a *appender) each(list []appending) {
	if len(list) == 1 {
		a.alone(list[0])
		return
	}
	var all errgroup.Group
	all.SetLimit(aloneAtOnce)
	for _, p := range list {
		all.Go(func() error { a.alone(p); return nil })
	}
	all.Wait() // nil: each has told its error
}

// alone sends a message by itself.
func (a *appender) alone(p appending) {
	for _, name := range []string{batchIDHeader, batchSequence, batchCommit} { // of a batch that was refused
		p.message.Header.Del(name)
	}
	ack, err := a.js.PublishMsg(p.ctx, p.message)
	if err != nil {
		p.told(0, sized(err))
		return
	}
	p.told(ack.Sequence, nil)
}

// next takes a batch of those that wait for an answer.
func (a *appender) next() (list []appending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size, taken := 0, 0
	for _, p := range a.waiting {
		if size += len(p.message.Data) + messageOnWire; len(list) > 0 && size > batchBytes || len(list) == batchMessages {
			break
		}
		taken++
		if err := p.ctx.Err(); err != nil {
			p.told(0, err)
			continue
		}
		list = append(list, p)
	}
	if a.waiting = slices.Delete(a.waiting, 0, taken); len(list) == 0 {
		a.busy--
	}
	return list
}

// together sends a batch.
func (a *appender) together(list []appending) {
	last, err := a.commit(list)
	switch api := (*jetstream.APIError)(nil); {
	case err == nil:
		for i, p := range list {
			p.told(last-uint64(len(list)-1-i), nil)
		}
	case errors.As(err, &api):
		if api.ErrorCode == atomicDisabled {
			a.plain.Store(true)
			a.each(list)
			return
		}
		half := len(list) / 2
		a.send(list[:half])
		a.send(list[half:])
	default:
		for _, p := range list {
			p.told(0, err)
		}
	}
}

// commit sends a batch and returns the sequence number of its last message. Those
// before it, in their order, have the numbers before it.
func (a *appender) commit(list []appending) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), batchWithin)
	defer cancel()
	id := batchID()
	for i, p := range list {
		m := p.message
		m.Header.Set(batchIDHeader, id)
		m.Header.Set(batchSequence, strconv.Itoa(i+1))
		m.Header.Del(batchCommit) // of a batch that was refused
		if i < len(list)-1 {
			if err := a.conn.PublishMsg(m); err != nil {
				return 0, err
			}
			continue
		}
		m.Header.Set(batchCommit, "1")
		answer, err := a.conn.RequestMsgWithContext(ctx, m)
		if err != nil {
			return 0, cmp.Or(noStream(err), err)
		}
		return committed(answer.Data, len(list))
	}
	return 0, nil
}

// The server's names of what it goes by.
const (
	batchIDHeader = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
)

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
