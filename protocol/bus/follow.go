package bus

import (
	"cmp"
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

// Checker is a Reader that wants to know how far it can trust what it was told.
type Checker interface {
	// Checked says that what the reader was told was all that the bucket held at a
	// moment not before at, or that a marker or a newer value is on its way: the bucket
	// had lost nothing until then.
	Checked(at time.Time)
}

// How often Follow asks whether the bucket is still the one that it reads, unless Site.CheckEvery is set. It waits checkWithin
// for the answer, and asks again after checkAgain when there was none.
const (
	checkEvery  = 5 * time.Second
	checkWithin = checkEvery / 2
	checkAgain  = time.Second
)

// Unchecked is how long a Checker that is not told anything may go on: by then two
// checks have failed.
const Unchecked = 2*checkEvery + checkWithin

// LossSettled is how long after a bucket has lost something each rackd has noticed that
// or lost its lease: a rackd does not renew its lease when its WORK is Unchecked.
const LossSettled = Unchecked + LeaseTTL + LeaseMargin

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
			s.BeatLost()
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
	// The watch ends with its context. Its Stop would wait until the server has deleted a consumer, five seconds where
	// none answers: who is told to end would not.
	ctx, end := context.WithCancel(ctx)
	defer end()
	watch, err := kv.Watch(ctx, f.filter)
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", f.bucket, err)
	}
	began := time.Now()
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
	check := time.NewTimer(f.every())
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
			again, err := f.check(ctx, stream, synced)
			if err != nil {
				return err
			}
			check.Reset(again)
		case e, open := <-watch.Updates():
			switch {
			case !open:
				return fmt.Errorf("the watch on bucket %s ended", f.bucket)
			case e == nil:
				synced = true
				f.reader.Synced(f.missing(before))
				f.checked(began)
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

// every is how often the bucket is checked.
func (f *follower) every() time.Duration { return cmp.Or(f.site.CheckEvery, checkEvery) }

// checked tells a reader that wants to know.
func (f *follower) checked(at time.Time) {
	if c, ok := f.reader.(Checker); ok {
		c.Checked(at)
	}
}

// check compares the stream with what was read of it and returns when to do so again.
// A stream that does not answer is no loss: the watch goes on when it does.
func (f *follower) check(ctx context.Context, stream jetstream.Stream, synced bool) (again time.Duration, lost error) {
	ask, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	began := time.Now()
	info, err := stream.Info(ask)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, fmt.Errorf("bucket %s: %w: its stream is gone", f.bucket, errLost)
	case err != nil:
		return checkAgain, nil
	case !info.Created.Equal(f.created):
		return 0, fmt.Errorf("bucket %s: %w: its stream was deleted and made again", f.bucket, errLost)
	case info.State.LastSeq < f.highest:
		return 0, fmt.Errorf("bucket %s: %w: it is back at revision %d, %d had been read", f.bucket, errLost, info.State.LastSeq, f.highest)
	}
	// A revision below the first one left is gone. One that the watch is about to
	// replace looks alike, so the key itself is asked for.
	if !synced {
		return f.every(), nil
	}
	for key, rev := range f.keys {
		if rev >= info.State.FirstSeq {
			continue
		}
		switch there, err := f.replaced(ask, key, rev); {
		case err != nil:
			return checkAgain, nil
		case !there:
			return 0, fmt.Errorf("bucket %s: %w: it begins at revision %d, key %s was read at %d", f.bucket, errLost, info.State.FirstSeq, key, rev)
		}
	}
	f.checked(began)
	return f.every(), nil
}

// replaced reports whether a key has a newer revision, which the watch will bring.
func (f *follower) replaced(ctx context.Context, key string, rev uint64) (bool, error) {
	kv, err := f.site.JS.KeyValue(ctx, f.bucket)
	if err != nil {
		return false, err
	}
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		// Deleted, and the marker is on its way, or lost: reading all again is right in
		// both cases and rare in the first.
		return false, nil
	}
	return err == nil && e.Revision() > rev, err
}
