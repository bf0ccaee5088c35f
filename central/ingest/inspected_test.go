package ingest

import (
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Whether the newest inspection has succeeded does not depend on how far the clocks of central and of the rackd are
// apart: central says when one begins, the rackd when it ends.
func TestInspectionsByTwoClocks(t *testing.T) {
	for name, apart := range map[string]time.Duration{"the rackd's clock is behind": -5 * time.Hour, "ahead": 5 * time.Hour, "right": 0} {
		n := &store.Node{UUID: "n", ObservedGeneration: -1, ProvisionState: provision.Manageable}
		now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		inspect := func(failure string) {
			n.Accept(provision.Inspecting, provision.Manageable, now)
			n.WorkID = "w"
			if !n.Inspected().IsZero() {
				t.Errorf("%s: an inspection has begun, and has been finished at %v", name, n.Inspected())
			}
			now = now.Add(time.Minute)
			e := &work.Event{Kind: work.WorkEnded, Node: "n", Work: "w", Verb: work.Inspect, Generation: n.Generation, Epoch: 1, Seq: 1,
				State: provision.Manageable, Error: failure, Time: now.Add(apart)}
			if failure != "" {
				e.State = provision.InspectFail
			}
			if why := apply(n, e, newEffects()); why != applied {
				t.Fatalf("%s: %s", name, why)
			}
			if succeeded := !n.Inspected().IsZero(); succeeded != (failure == "") {
				t.Errorf("%s: an inspection has ended with the error %q, and was finished at %v", name, failure, n.Inspected())
			}
			now = now.Add(time.Minute)
		}
		inspect("")
		inspect("")
		inspect("too hot")
		inspect("")
	}
}
