package runner

import (
	"log/slog"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/view"
)

// An inventory that the ramdisk sends is at hand for the step, and wakes the runner as a heartbeat does.
func TestAnInventoryWakesTheRunner(t *testing.T) {
	r := New(&Deps{Members: leased{}, Log: slog.New(slog.DiscardHandler)}, &node.Document{UUID: nodeA}, view.Work{Doc: work.Document{ID: "w"}}, nil)
	if r.Sent() != nil || r.heartbeat || len(r.woken) != 0 {
		t.Fatalf("at the beginning: %+v, beat %v, woken %d", r.Sent(), r.heartbeat, len(r.woken))
	}
	sent := &agentapi.Inventory{Hostname: "h"}
	if err := r.TakeInventory(work.Boot{Number: 1}, sent); err == nil || r.Sent() != nil {
		t.Errorf("taken from another boot: %+v, %v", r.Sent(), err)
	}
	if err := r.TakeInventory(work.Boot{}, sent); err != nil {
		t.Fatal(err)
	}
	if r.Sent() != sent || !r.heartbeat || len(r.woken) != 1 {
		t.Errorf("got %+v, beat %v, woken %d", r.Sent(), r.heartbeat, len(r.woken))
	}
}
