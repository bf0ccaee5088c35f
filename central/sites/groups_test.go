package sites

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// racing is a bucket that refuses the first writes as a server does when somebody else was
// faster.
type racing struct {
	jetstream.KeyValue
	code    jetstream.ErrorCode
	refused *int
}

func (r racing) refuse() error {
	if *r.refused++; *r.refused > 2 {
		return nil
	}
	return fmt.Errorf("refused: %w", &jetstream.APIError{ErrorCode: r.code})
}

func (r racing) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	if err := r.refuse(); err != nil {
		return 0, err
	}
	return r.KeyValue.Create(ctx, key, value, opts...)
}

func (r racing) Purge(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	if err := r.refuse(); err != nil {
		return err
	}
	return r.KeyValue.Purge(ctx, key, opts...)
}

// Who is not the first to write a site's groups looks at them again, whichever way the bus
// says so.
func TestGroupsAreComparedAgainAfterAnyConflict(t *testing.T) {
	for code, want := range map[jetstream.ErrorCode]bool{jetstream.JSErrCodeStreamWrongLastSequence: true,
		jetstream.JSErrCodeStreamWrongLastSequenceConstant: true, jetstream.JSErrCodeStreamNotFound: false} {
		site := bustest.Open(t)
		m, err := NewMap([]Site{{Groups: []string{"a", "b"}}}, Failover{Group: "a", To: []string{"b"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := site.Groups.Put(t.Context(), bus.GroupKey("old"), []byte(`{"name":"old","failover":["a"]}`)); err != nil {
			t.Fatal(err)
		}
		site.Groups = racing{site.Groups, code, new(int)}
		if err := writeGroups(t.Context(), m, noKeys{}, site, slog.New(slog.DiscardHandler)); (err == nil) != want {
			t.Errorf("code %d: %v, written in the end: want %v", code, err, want)
		}
		_, there := site.Groups.Get(t.Context(), bus.GroupKey("a"))
		_, gone := site.Groups.Get(t.Context(), bus.GroupKey("old"))
		if (there == nil) != want || errors.Is(gone, jetstream.ErrKeyNotFound) != want {
			t.Errorf("code %d: the group that is wanted: %v, the other: %v", code, there, gone)
		}
	}
}
