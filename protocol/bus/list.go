package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// List returns the living keys of a bucket of the site, by key. It reads each once:
// two keys may be of different moments.
func (s *Site) List(ctx context.Context, kv jetstream.KeyValue, opts ...jetstream.WatchOpt) (map[string]jetstream.KeyValueEntry, error) {
	keys := map[string]jetstream.KeyValueEntry{}
	err := s.Read(ctx, kv, nil, func(e jetstream.KeyValueEntry) { keys[e.Key()] = e }, opts...)
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// listQuiet is how long a list may bring nothing. A stream that is deleted under its
// watch says nothing of that: the watch finds out much later, and meanwhile nothing else
// of the site's is done.
const listQuiet = 3 * time.Second

// Read calls f with what List returns, or with those of names that live.
func (s *Site) Read(ctx context.Context, kv jetstream.KeyValue, names []string, f func(jetstream.KeyValueEntry), opts ...jetstream.WatchOpt) error {
	failed := func(err error) error { return fmt.Errorf("list bucket %s of site %q: %w", kv.Bucket(), s.Name, err) }
	if names == nil {
		names = []string{">"}
	}
	ctx, end := context.WithCancel(ctx) // and with it the watch, whose Stop would wait for the server
	defer end()
	watch, err := kv.WatchFiltered(ctx, names, append(opts, jetstream.IgnoreDeletes())...)
	if err != nil {
		return failed(err)
	}
	quiet := time.NewTimer(listQuiet)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return failed(ctx.Err())
		case <-quiet.C:
			return failed(fmt.Errorf("nothing has come for %v", listQuiet))
		case e, open := <-watch.Updates():
			switch {
			case !open:
				return failed(errors.New("the watch ended"))
			case e == nil:
				return nil
			}
			f(e)
			quiet.Reset(listQuiet)
		}
	}
}
