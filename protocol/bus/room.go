package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// leastBytes is the smallest limit that is tried on servers that have little room.
const leastBytes = 4 << 20

// shareOfLittle is the part that one stream takes of what such servers have: the others, and what
// has no limit, need room too.
const shareOfLittle = 4

// The server's error codes for a limit that it cannot keep free.
const (
	storeTooSmall   = 10047
	accountTooSmall = 10023
)

// within calls make with a limit of bytes, smaller ones while the servers say that they cannot
// keep as much free. A stream that holds more already keeps what it holds: a limit below that
// would make the server drop the oldest.
func within[T any](ctx context.Context, js jetstream.JetStream, stream string, limit int64, make func(limit int64) (T, error)) (got T, err error) {
	held := int64(0)
	switch s, err := js.Stream(ctx, stream); {
	case err == nil:
		held = int64(s.CachedInfo().State.Bytes)
		limit = max(limit, held+held/8)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return got, err
	}
	for little := false; ; little, limit = true, limit/2 {
		got, err = make(limit)
		if err == nil && little {
			return make(max(limit/shareOfLittle, leastBytes, held+held/8))
		}
		api, ok := errors.AsType[*jetstream.APIError](err)
		if !ok || api.ErrorCode != storeTooSmall && api.ErrorCode != accountTooSmall {
			return got, err
		}
		if limit/2 < max(leastBytes, held) {
			return got, fmt.Errorf("the site's servers have no room left to keep %d MiB free for %s (their max_file_store, or their disk): %w", limit>>20, stream, err)
		}
	}
}
