package ingest

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"
)

// trimmer removes from a site's stream what has been applied: a stream that is full takes no
// event, although most of what it holds may be of no more use. It counts what it applies, and
// asks the site nothing while little comes.
type trimmer struct {
	site   string
	stream jetstream.Stream
	log    *slog.Logger
	// every is how many bytes are applied between two removals.
	every, applied int64
}

// trimParts is into how many parts a full stream is divided: one part is removed at a time.
const trimParts = 8

// eventRoom is what an event takes in the store besides its content.
const eventRoom = 256

func newTrimmer(site string, stream jetstream.Stream, log *slog.Logger) *trimmer {
	t := &trimmer{site: site, stream: stream, log: log}
	if info := stream.CachedInfo(); info != nil && info.Config.MaxBytes > 0 {
		t.every = max(info.Config.MaxBytes/trimParts, 1)
		// What was applied before this replica came counts too.
		t.applied = int64(min(info.State.Bytes, uint64(info.Config.MaxBytes)))
	}
	return t
}

// took notes events that have been applied and acknowledged; all before next are.
func (t *trimmer) took(ctx context.Context, batch []jetstream.Msg, next uint64) {
	if t.every == 0 {
		return
	}
	for _, m := range batch {
		t.applied += int64(len(m.Data()) + eventRoom)
	}
	if t.applied < t.every {
		return
	}
	t.applied = 0 // also where it fails: the next attempt comes after as much again
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := t.stream.Purge(ctx, jetstream.WithPurgeSequence(next)); err != nil && ctx.Err() == nil {
		t.log.Warn("events that were applied are not removed from the site's bus; they go by their age", "site", t.site, "before", next, "error", err)
	}
}
