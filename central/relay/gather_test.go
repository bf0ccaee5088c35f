package relay

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// A whole batch waits for nothing.
func TestABatchDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{inbox: newInbox(), linger: time.Hour}
		began := time.Now()
		time.AfterFunc(time.Second, func() { w.inbox.add(slices.Repeat([]*store.Outbox{{ID: "1"}}, batchSize)) })
		if !w.gather(t.Context()) || time.Since(began) != time.Second {
			t.Errorf("it waited for %v, want until there was a batch", time.Since(began))
		}
	})
}

// In a crowd that sends no work entries wait for long, until work comes.
func TestWorkEndsALongWait(t *testing.T) {
	for name, c := range map[string]struct {
		entry store.Outbox
		want  time.Duration
	}{
		"a node": {store.Outbox{ID: "1"}, quietLinger},
		"work":   {store.Outbox{ID: "2", Object: "w"}, 50*time.Millisecond + crowdLinger},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writer{inbox: newInbox(), linger: quietLinger}
				began := time.Now()
				time.AfterFunc(50*time.Millisecond, func() { w.inbox.add([]*store.Outbox{&c.entry}) })
				if !w.gather(t.Context()) {
					t.Fatal("it ended early")
				}
				if got := time.Since(began); got != c.want {
					t.Errorf("it waited for %v, want %v", got, c.want)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if (&writer{inbox: newInbox(), linger: time.Hour}).gather(ctx) {
		t.Error("it went on after its end")
	}
}
