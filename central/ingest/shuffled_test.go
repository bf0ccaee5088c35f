package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// told is what events have made of a node.
func told(t *testing.T, s *store.Store, id string) string {
	t.Helper()
	n, err := s.Node(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	list, err := s.History(t.Context(), store.HistoryQuery{Node: id, Page: store.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		lines = append(lines, l.Event)
	}
	found := ""
	if i, err := s.Inventory(t.Context(), id); err == nil {
		found = string(i.Data)
	}
	return fmt.Sprintf("%s %s, error %q, power %s, step %q, work open %t, epoch %d seq %d, inventory %s, history %q", n.ProvisionState,
		n.TargetProvisionState, n.LastError, n.PowerState, n.ObservedStep, n.WorkID != "", n.ObservedEpoch, n.ObservedSeq, found, lines)
}

// begun accepts a flow, as central does.
func begun(t *testing.T, s *store.Store, id string, verb work.Verb, state provision.State) (w *store.Work) {
	t.Helper()
	err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, id)
		if err != nil {
			return err
		}
		n.Accept(state, provision.Active, time.Unix(100, 0))
		w = storetest.NewWork(n, verb)
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		return tx.InsertWork(ctx, w)
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A rackd that heard no answer publishes its events again, minutes later, when the bus remembers them no more: in the middle of what
// follows, of the same work under a later epoch, and of the next flows. None of them ends, moves or overwrites what is newer.
func TestEventsThatArePublishedAgainChangeNothing(t *testing.T) {
	for seed := range uint64(8) {
		var ends [2]string
		for again := range 2 {
			dice := rand.New(rand.NewPCG(seed, 2))
			s := storetest.Open(t, storetest.SQLite(t))
			g := New(Config{Store: s, Metrics: metrics.New(s.Statements), Log: slog.New(slog.DiscardHandler)})
			n := storetest.NewNode("n")
			storetest.Insert(t, s, n)
			var sent []*work.Event
			place := uint64(0)
			send := func(e *work.Event) {
				t.Helper()
				place++
				if _, err := g.apply(t.Context(), "east", []placed{{Event: e, place: place, stored: int64(place)}}); err != nil {
					t.Fatal(err)
				}
			}
			publish := func(e *work.Event) {
				t.Helper()
				send(e)
				sent = append(sent, e)
				for range dice.IntN(3) { // the dice fall alike in both rounds
					if old := sent[dice.IntN(len(sent))]; again == 1 {
						send(old)
					}
				}
			}
			for flow, f := range []struct {
				verb      work.Verb
				from, end provision.State
				errText   string
			}{
				{work.Deploy, provision.Deploying, provision.DeployFail, "checksum differs"}, {work.Deploy, provision.Deploying, provision.Active, ""},
				{work.Rescue, provision.Rescuing, provision.Rescue, ""}, {work.Unrescue, provision.Unrescuing, provision.Active, ""}, {work.Delete, provision.Deleting, provision.Available, ""},
			} {
				w := begun(t, s, n.UUID, f.verb, f.from)
				var seq uint64
				for epoch := uint64(1); epoch <= 2; epoch++ { // a takeover in the middle
					seq = 0
					for _, step := range []string{"deploy", "write_image", "boot"} {
						seq++
						e := &work.Event{Kind: work.PhaseEntered, Node: n.UUID, Work: w.ID, Verb: f.verb, Generation: w.Generation, Epoch: epoch, Seq: seq, Rackd: "r",
							Time: time.Unix(int64(flow), 0), Step: step, Phase: fmt.Sprint(flow, step, epoch)}
						if step == "write_image" {
							e.Kind, e.Inventory = work.InventoryFound, &agentapi.Inventory{Hostname: fmt.Sprint("boot-", flow, "-", epoch)}
						}
						publish(e)
					}
				}
				publish(&work.Event{Kind: work.WorkEnded, Node: n.UUID, Work: w.ID, Verb: f.verb, Generation: w.Generation, Epoch: 2, Seq: seq + 1, Rackd: "r",
					Time: time.Unix(int64(flow), 9), State: f.end, Error: f.errText, Power: []string{"power on", "power off"}[flow%2]})
			}
			begun(t, s, n.UUID, work.Deploy, provision.Deploying) // which no rackd has reported on
			for _, old := range sent {
				if again == 1 {
					send(old)
				}
			}
			ends[again] = told(t, s, n.UUID)
		}
		if ends[0] != ends[1] {
			t.Fatalf("seed %d: once:\n%s\nand again:\n%s", seed, ends[0], ends[1])
		}
	}
}
