package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// List returns the living keys of a bucket of the site, by key. It reads each once:
// two keys may be of different moments.
func (s *Site) List(ctx context.Context, kv jetstream.KeyValue, opts ...jetstream.WatchOpt) (map[string]jetstream.KeyValueEntry, error) {
	ctx, end := context.WithCancel(ctx) // and with it the watch, whose Stop would wait for the server
	defer end()
	watch, err := kv.WatchAll(ctx, append(opts, jetstream.IgnoreDeletes())...)
	if err != nil {
		return nil, fmt.Errorf("list bucket %s of site %q: %w", kv.Bucket(), s.Name, err)
	}
	keys := map[string]jetstream.KeyValueEntry{}
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("list bucket %s of site %q: %w", kv.Bucket(), s.Name, ctx.Err())
		case e, open := <-watch.Updates():
			switch {
			case !open:
				return nil, fmt.Errorf("list bucket %s of site %q: the watch ended", kv.Bucket(), s.Name)
			case e == nil:
				return keys, nil
			default:
				keys[e.Key()] = e
			}
		}
	}
}
