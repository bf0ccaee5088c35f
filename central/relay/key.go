package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// held is what a key held when it was read. A deleted key has a revision too, that of
// its marker: whoever writes next must have seen it.
type held struct {
	revision uint64 // 0: there never was anything
	value    []byte // nil: there is nothing
}

// read reads an order's keys. That the bus may answer with what was there a moment ago
// does no harm: then the write fails.
func (w *writer) read(ctx context.Context, o *order) (err error) {
	if o.node, err = get(ctx, w.nodes, bus.NodesBucket, o.key()); err != nil {
		return err
	}
	o.hadWork = o.hadWork || o.work.revision > 0
	o.work, err = get(ctx, w.works, bus.WorkBucket, o.key())
	return err
}

// vanished reports whether the site has lost the work's key since an earlier attempt: what
// was there may have been the very document that is to be written, from another replica.
func (o *order) vanished() bool { return o.hadWork && o.work.revision == 0 }

// get reads a key of a bucket from the bucket's stream, which shows markers.
func get(ctx context.Context, stream jetstream.Stream, bucket, key string) (held, error) {
	m, err := stream.GetLastMsgForSubject(ctx, "$KV."+bucket+"."+key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return held{}, nil
	case err != nil:
		return held{}, fmt.Errorf("read key %s of bucket %s: %w", key, bucket, err)
	case bus.IsMarker(m):
		return held{revision: m.Sequence}, nil
	}
	return held{m.Sequence, m.Data}, nil
}

// put writes value under key if the key still is as it was read; isRace says of the
// error that it was not.
func (h held) put(ctx context.Context, site *bus.Site, kv jetstream.KeyValue, m *memory, key string, value []byte) error {
	revision, err := site.Update(ctx, kv, key, value, h.revision)
	if err == nil {
		m.wrote(revision, h.revision == 0)
	}
	return err
}

// purge deletes key if it still is as it was read.
func (h held) purge(ctx context.Context, site *bus.Site, kv jetstream.KeyValue, key string) error {
	if h.value == nil {
		return nil
	}
	return h.mark(ctx, site, kv, key)
}

// forbid purges key, and leaves a marker there also if it never held anything: who still takes
// the node for new, on another replica, must find that he comes too late.
func (h held) forbid(ctx context.Context, site *bus.Site, kv jetstream.KeyValue, key string) error {
	if h.value == nil && h.revision > 0 {
		return nil
	}
	return h.mark(ctx, site, kv, key)
}

func (h held) mark(ctx context.Context, site *bus.Site, kv jetstream.KeyValue, key string) error {
	if err := site.Purge(ctx, kv, key, h.revision); err != nil {
		return fmt.Errorf("purge %s of %s: %w", key, kv.Bucket(), err)
	}
	return nil
}

// isRace reports whether a write failed because the key was not as it was read, or was
// taken for empty and was not.
func isRace(err error) bool { return bus.Conflict(err) }
