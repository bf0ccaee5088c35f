package replicas

import (
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// places are all where a replica may die with something in its hands: of an API request,
// of the outbox, of ingest.
var places = []string{
	"store.commit@" + string(work.Power),
	"store.committed@" + string(work.Power),
	"api.answer@PUT",
	"relay.publish",
	"relay.half",
	"relay.claimed",
	"relay.published",
	"relay.forget",
	"relay.forgotten",
	"ingest.apply",
	"ingest.applied",
	"ingest.acknowledged",
}

// While clients write, one replica after the other is killed at each of the places, and
// replaced.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	f := newFleet(t, postgres.Database(t))
	clients, stop := f.clients(6)
	defer stop()
	for i, place := range places {
		// Not the first time, so that there is something on its way.
		victim := f.replace(i%size, fmt.Sprintf("%s=kill#%d", place, 2+i%3))
		began := time.Now()
		until(t, time.Minute, place+" is passed", func() bool {
			select {
			case <-victim.ended:
				return true
			default:
				f.unpin() // the events go to one replica; let it be this one some time
				return false
			}
		})
		if !victim.killed() {
			t.Fatalf("at %s the replica ended by itself:\n%s", place, victim.log)
		}
		t.Logf("killed at %s after %v", place, time.Since(began).Round(time.Millisecond))
		f.set(i%size, f.startReplica(""))
	}
	stop()
	f.checkAll(clients)
}

// unpin hands the events to another replica, or to the same.
func (f *fleet) unpin() {
	if err := f.rack.site.Events.UnpinConsumer(f.Context(), bus.IngestConsumer, "central"); err != nil {
		f.Logf("unpin: %v", err)
	}
}
