package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Reader takes in what a bucket holds. Its methods are called from one goroutine.
type Reader interface {
	// Begin says that everything will be read, from the start: revisions may be lower
	// than those read before.
	Begin()
	// Apply takes in one change: a value, or a marker that the key is gone.
	Apply(e jetstream.KeyValueEntry)
	// Synced says that everything which the bucket held when Follow began to read it
	// has been applied; missing are keys that were there when it last was in step and
	// that the bucket lost without saying that they were deleted.
	Synced(missing []string)
}

// checkEvery is how often Follow asks whether the bucket is still the one that it reads.
const checkEvery = 5 * time.Second

// Follow keeps r in step with the keys of bucket that match filter, until ctx ends.
// A watch alone goes silent when the bucket is deleted, purged as a whole or
// restored from an older copy; Follow finds that out within two of its checks, tells
// it with a beat, and reads everything again. While the bus does not answer, it waits.
func (s *Site) Follow(ctx context.Context, bucket, filter string, r Reader) error {
	f := &follower{site: s, bucket: bucket, filter: filter, reader: r, keys: map[string]uint64{}}
	for {
		err := f.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if s.Trouble != nil {
			s.Trouble(bucket, err)
		}
		if errors.Is(err, errLost) {
			s.beatLost()
		}
		t := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}

type follower struct {
	site           *Site
	bucket, filter string
	reader         Reader

	keys    map[string]uint64 // what the reader has been given, and its revision
	highest uint64
	created time.Time // of the bucket's stream
}

var errLost = errors.New("the bucket has lost what it held")

func (f *follower) once(ctx context.Context) error {
	// The handle is made anew: a bucket that was deleted and made again needs it.
	kv, err := f.site.JS.KeyValue(ctx, f.bucket)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", f.bucket, err)
	}
	stream, err := f.site.JS.Stream(ctx, "KV_"+f.bucket)
	if err != nil {
		return fmt.Errorf("open the stream of bucket %s: %w", f.bucket, err)
	}
	f.created = stream.CachedInfo().Created
	watch, err := kv.Watch(ctx, f.filter)
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", f.bucket, err)
	}
	defer watch.Stop()
	f.reader.Begin()
	before := f.keys
	f.keys, f.highest = map[string]uint64{}, 0
	synced := false
	defer func() {
		if !synced { // what was there before is still what may be missing
			for key, rev := range before {
				if _, there := f.keys[key]; !there {
					f.keys[key] = rev
				}
			}
		}
	}()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
			if err := f.check(ctx, stream, synced); err != nil {
				return err
			}
		case e, open := <-watch.Updates():
			switch {
			case !open:
				return fmt.Errorf("the watch on bucket %s ended", f.bucket)
			case e == nil:
				synced = true
				f.reader.Synced(f.missing(before))
				before = nil
			default:
				f.highest = max(f.highest, e.Revision())
				if delete(before, e.Key()); e.Operation() == jetstream.KeyValuePut {
					f.keys[e.Key()] = e.Revision()
				} else {
					delete(f.keys, e.Key())
				}
				f.reader.Apply(e)
			}
		}
	}
}

func (f *follower) missing(before map[string]uint64) []string {
	var list []string
	for key := range before {
		list = append(list, key)
	}
	return list
}

// check compares the stream with what was read of it. A stream that does not answer
// is no loss: the watch goes on when it does.
func (f *follower) check(ctx context.Context, stream jetstream.Stream, synced bool) error {
	ask, cancel := context.WithTimeout(ctx, checkEvery/2)
	defer cancel()
	info, err := stream.Info(ask)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("bucket %s: %w: its stream is gone", f.bucket, errLost)
	case err != nil:
		return nil
	case !info.Created.Equal(f.created):
		return fmt.Errorf("bucket %s: %w: its stream was made anew", f.bucket, errLost)
	case info.State.LastSeq < f.highest:
		return fmt.Errorf("bucket %s: %w: it is back at revision %d, %d had been read", f.bucket, errLost, info.State.LastSeq, f.highest)
	}
	// A revision below the first one left is gone. One that the watch is about to
	// replace looks alike, so the key itself is asked for.
	if !synced {
		return nil
	}
	for key, rev := range f.keys {
		if rev < info.State.FirstSeq && !f.replaced(ctx, key, rev) {
			return fmt.Errorf("bucket %s: %w: it begins at revision %d, key %s was read at %d", f.bucket, errLost, info.State.FirstSeq, key, rev)
		}
	}
	return nil
}

// replaced reports whether a key has a newer revision, which the watch will bring.
func (f *follower) replaced(ctx context.Context, key string, rev uint64) bool {
	kv, err := f.site.JS.KeyValue(ctx, f.bucket)
	if err != nil {
		return true // the next check decides
	}
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		// Deleted, and the marker is on its way, or lost: reading all again is right in
		// both cases and rare in the first.
		return false
	}
	return err != nil || e.Revision() > rev
}
