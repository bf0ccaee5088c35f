package ingest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// Events that were deleted are passed over by a central that may do no more on the bus than the
// fleet's central may.
func TestDeletedEventsArePassedOverWithCentralsPermissions(t *testing.T) {
	site, central := bustest.Fleet(t)
	for i := range 8 {
		if err := site.Publish(t.Context(), bus.EventSubject("g", "n"), fmt.Sprint(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	info, err := site.Events.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	base := info.State.FirstSeq - 1
	for _, seq := range []uint64{3, 4, 5, 6, 7} {
		if err := site.Events.DeleteMsg(t.Context(), base+seq); err != nil {
			t.Fatal(err)
		}
	}
	f := &feed{site: "s", stream: central.Events, next: base + 3,
		apply: func(_ context.Context, events []jetstream.Msg) error {
			return fmt.Errorf("%d events are applied", len(events))
		}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.fill(ctx, base+8); err != nil || f.next != base+8 {
		t.Errorf("the next is %d, want %d, error %v", f.next-base, 8, err)
	}
}
