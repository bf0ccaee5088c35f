package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/consolecopy"
)

// A site works without CONSOLES: a central of before makes none, and a small site may have no room for it. So no Open waits for it.

// consoleMarkers is how long the bucket keeps the marker of a copy that was removed.
const consoleMarkers = time.Hour

// MakeConsoles makes the bucket of consoles' copies, or changes it to fit set. It tries until ctx ends where the servers do not answer.
// A site that has no room for all of set's bytes is asked for them once: the bucket stays as it was made then.
func (s *Site) MakeConsoles(ctx context.Context, set Settings) error {
	if set.ConsolesBytes == 0 {
		set.ConsolesBytes = DefaultConsolesBytes
	}
	set.usual = s.usualReplicas
	const stream = "KV_" + ConsolesBucket
	_, err := ensure(ctx, set, s.OpenConsoles, jetstream.ErrBucketNotFound, func(ctx context.Context, replicas int) (jetstream.KeyValue, error) {
		cfg := jetstream.KeyValueConfig{Bucket: ConsolesBucket, History: 1, Storage: jetstream.FileStorage, LimitMarkerTTL: consoleMarkers, MaxValueSize: consolecopy.MaxBytes + headersRoom, Replicas: replicas}
		want := streamOf(cfg, time.Now())
		apply := s.JS.CreateStream
		switch there, err := s.JS.Stream(ctx, stream); {
		case err == nil:
			now := there.CachedInfo().Config
			fits := now.Replicas == replicas && now.MaxMsgSize == cfg.MaxValueSize && now.SubjectDeleteMarkerTTL == consoleMarkers
			if fits && (now.MaxBytes == set.ConsolesBytes || now.MaxBytes > 0 && s.consoles.Load() == set.ConsolesBytes) {
				return s.OpenConsoles(ctx)
			}
			want.FirstSeq, apply = now.FirstSeq, s.JS.UpdateStream
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, err
		}
		_, err := within(ctx, s.JS, stream, set.ConsolesBytes, func(limit int64) (jetstream.Stream, error) {
			want.MaxBytes = limit
			made, err := apply(ctx, want)
			if err == nil {
				apply = s.JS.UpdateStream // within may ask for less
			}
			return made, err
		})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // else another central was faster
			return nil, err
		}
		s.consoles.Store(set.ConsolesBytes)
		return s.OpenConsoles(ctx)
	})
	if err != nil {
		return fmt.Errorf("make bucket %s of site %q: %w", ConsolesBucket, s.Name, err)
	}
	return nil
}

// OpenConsoles opens the bucket of consoles' copies. It makes nothing and does not wait.
func (s *Site) OpenConsoles(ctx context.Context) (jetstream.KeyValue, error) {
	return s.JS.KeyValue(ctx, ConsolesBucket)
}
