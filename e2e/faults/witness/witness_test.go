package witness

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/work"
)

func TestOwnersAreSeen(t *testing.T) {
	srv, _ := bustest.Server(t, t.TempDir())
	nc := bustest.Connect(t, srv)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	site, err := bus.Open(ctx, nc, "", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	w := New(nil)
	if err := w.Follow(ctx, "s", nc); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, owner := range []string{"a", "b"} {
		body, err := json.Marshal(work.Document{ID: "w", Node: "n", Owner: owner, Epoch: uint64(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := site.Work.Put(ctx, bus.NodeKey("g", "n"), body); err != nil {
			t.Fatal(err)
		}
		if err := w.Await(ctx, func() bool { return len(w.Owned(owner)) == 1 }); err != nil {
			t.Fatalf("owner %s was not seen: %v", owner, err)
		}
	}
	if n := len(w.Owned("a")); n != 0 {
		t.Errorf("a still owns %d", n)
	}
	if err := site.Work.Purge(ctx, bus.NodeKey("g", "n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Await(ctx, func() bool { return len(w.Owned("b")) == 0 }); err != nil {
		t.Fatalf("its end was not seen: %v", err)
	}
	seen := w.Seen()
	if len(seen) != 3 || seen[0].Doc.Epoch != 1 || seen[1].Doc.Epoch != 2 || !seen[2].Gone {
		t.Errorf("saw %+v", seen)
	}
}
