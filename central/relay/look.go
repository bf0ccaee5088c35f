package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
)

// witness is what a bucket's stream was like when it was last looked at.
type witness struct {
	created           time.Time
	first, last, msgs uint64
}

func witnessOf(info *jetstream.StreamInfo) witness {
	return witness{info.Created.UTC(), info.State.FirstSeq, info.State.LastSeq, info.State.Msgs}
}

// loss is what a stream tells of what its bucket has lost.
type loss struct {
	what   string // empty: nothing
	older  bool   // the keys which are left may be older than they were
	unsure bool   // it may just as well be that every key has changed
}

// loss compares the stream with how it was. In these buckets a key has one message,
// which a change replaces, and a deleted key's message says so: their number never
// falls.
func (old witness) loss(now witness) loss {
	switch {
	case !now.created.Equal(old.created):
		return loss{what: "its stream was deleted and made again", older: true}
	case now.last < old.last:
		return loss{what: fmt.Sprintf("it is back at revision %d, and was at %d", now.last, old.last), older: true}
	case now.msgs < old.msgs:
		return loss{what: fmt.Sprintf("it has %d messages, and had %d", now.msgs, old.msgs)}
	case old.msgs > 0 && now.first > old.last:
		return loss{what: fmt.Sprintf("nothing is left of the %d messages that it had", old.msgs), unsure: true}
	}
	return loss{}
}

// memory is what is remembered of a bucket as long as central runs, also while its
// site is away. The database remembers for the next process.
type memory struct {
	mu sync.Mutex // of witness
	witness
	known bool    // witness has been taken
	saved witness // as the database has it
	// compared is when the keys were last compared with the rows; zero: they must be.
	compared time.Time
	every    bool // all documents must be looked at
}

// note takes in how the bucket's stream is.
func (m *memory) note(now witness) loss {
	m.mu.Lock()
	defer m.mu.Unlock()
	var l loss
	if m.known {
		if l = m.loss(now); l.what != "" {
			m.compared, m.every = time.Time{}, m.every || l.older
		}
	}
	m.witness, m.known = now, true
	return l
}

// leaveRepairs remembers, when the writer ends, that it leaves repairs undone.
func (w *writer) leaveRepairs() {
	if len(w.todo)+len(w.failed)+len(w.lost) > 0 {
		w.memory.nodes.compared, w.memory.nodes.every = time.Time{}, true
		w.memory.work.compared, w.memory.work.every = time.Time{}, true
	}
}

// wrote takes in that a key was written under revision, for the first time or not: what
// was written since the last look must not be lost either. Safe for concurrent use.
func (m *memory) wrote(revision uint64, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last = max(m.last, revision); first {
		m.msgs++
	}
	m.msgs = max(m.msgs, 1)
}

// look asks the site whether it still holds what it was given. It first asks for the
// state of the streams of the two buckets, which costs least. If that shows a loss, and
// at each Reconcile, look compares all keys with the rows. Else it looks for the keys of
// open works only. It looks for config drives when their stream, or a rackd, reports a
// loss. An error means that the site has to be opened again; the next look retries all
// other failures.
func (w *writer) look(ctx context.Context) error {
	for _, t := range w.failed {
		w.add(t)
	}
	w.failed, w.quiet = nil, false
	for _, b := range []struct {
		name    string
		stream  jetstream.Stream
		memory  *memory
		compare func(ctx context.Context, every bool) error
		between func(context.Context) error // instead, while nothing is wrong
	}{
		{bus.WorkBucket, w.works, &w.memory.work, w.compareWorks, w.checkWorks}, // first: somebody waits for it
		{bus.NodesBucket, w.nodes, &w.memory.nodes, w.compareNodes, nil},
	} {
		err := w.lookAt(ctx, b.name, b.stream, b.memory, b.compare, b.between)
		if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
			return fmt.Errorf("bucket %s of site %q: %w", b.name, w.site.Name, err)
		}
		w.try(ctx, "compare bucket "+b.name+" with the database", func(context.Context) error { return err })
	}
	err := w.lookForDrives(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("object store %s of site %q: %w", bus.ConfigDrives, w.site.Name, err)
	}
	w.try(ctx, "look for the config drives of open works", func(context.Context) error { return err })
	return nil
}

func (w *writer) lookAt(ctx context.Context, bucket string, stream jetstream.Stream, m *memory, compare func(context.Context, bool) error, between func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := w.recall(ctx, bucket, m); err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	if l := m.note(witnessOf(info)); l.what != "" && !l.unsure {
		w.log.Warn("the site has lost documents; they are written again from the database", "bucket", bucket, "reason", l.what)
	}
	began := time.Now()
	if began.Sub(m.compared) < w.Reconcile {
		if between != nil {
			if err := between(ctx); err != nil {
				return err
			}
		}
		return w.save(ctx, bucket, m, witnessOf(info))
	}
	if err := compare(ctx, m.every); err != nil {
		return err
	}
	m.compared, m.every = began, false
	return w.save(ctx, bucket, m, witnessOf(info))
}

// recall takes from the database how a bucket was before this process began to look: a
// site may have come back from an older copy while no replica ran.
func (w *writer) recall(ctx context.Context, bucket string, m *memory) error {
	if m.known {
		return nil
	}
	b, err := w.Store.Bucket(ctx, w.site.Name, bucket)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	m.saved = witness{b.Created, b.First, b.Last, b.Messages}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.witness, m.known = m.saved, true
	return nil
}

// save writes to the database how a bucket is, unless something of it is still to be
// repaired: whoever comes next is to find that.
func (w *writer) save(ctx context.Context, bucket string, m *memory, now witness) error {
	if now == m.saved || len(w.todo)+len(w.failed)+len(w.lost) > 0 {
		return nil
	}
	err := w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.SetBucket(ctx, &store.Bucket{Site: w.site.Name, Name: bucket, Created: now.created, First: now.first, Last: now.last, Messages: now.msgs})
	})
	if err == nil {
		m.saved = now
	}
	return err
}

// lookTimeout bounds a look at one bucket, the list of all its keys included.
const lookTimeout = time.Minute
