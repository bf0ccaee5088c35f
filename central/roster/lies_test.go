package roster_test

import (
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/roster"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// Who may write the key rack1.thief is rackd thief of rack1, and no other, whatever it
// says. A namesake in another group is another rackd.
func TestRosterBelievesTheKey(t *testing.T) {
	site := bustest.Open(t)
	var lies atomic.Int32
	site.Refused = func(_ string, lie bool) {
		if lie {
			lies.Add(1)
		}
	}
	r := roster.New(roster.Config{Log: slog.New(slog.DiscardHandler)})
	ctx, _ := roster.Followed(t, r, site)
	for i, m := range []bus.Member{member("ghost", "rack1"), member("thief", "rack2"), member("b", "rack2"), {Group: "rack1"}} {
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		key := bus.MemberKey("rack1", "thief")
		if _, err := site.JS.Publish(ctx, "$KV."+bus.AliveBucket+"."+key, body, jetstream.WithMsgTTL(bus.LeaseTTL)); err != nil {
			t.Fatal(err)
		}
		if err := site.Conn.Publish(bus.BeatSubject("rack1", "thief"), []byte(m.Instance)); err != nil {
			t.Fatal(err)
		}
		for tick := time.Tick(10 * time.Millisecond); lies.Load() <= int32(i); {
			select {
			case <-tick:
			case <-ctx.Done():
				t.Fatalf("%d lies are counted after %d", lies.Load(), i+1)
			}
		}
	}
	true1 := member("b", "rack1")
	true1.Instance = "of rack1"
	true2 := member("b", "rack2")
	true2.Instance = "of rack2"
	for _, m := range []bus.Member{true1, true2} {
		if _, err := site.Announce(ctx, m, 0); err != nil {
			t.Fatal(err)
		}
		if err := r.WaitFor(ctx, func([]bus.Member) bool {
			got, ok := r.Owner("node", "fake-hardware", m.Group)
			return ok && got.Instance == m.Instance
		}); err != nil {
			t.Fatalf("the rackd of %s does not serve it: %v", m.Group, r.Conductors())
		}
	}
	if got, _ := r.Owner("node", "fake-hardware", "rack1"); got.Instance != "of rack1" {
		t.Errorf("rack1 is served by %q", got.Instance)
	}
	for _, m := range r.Conductors() {
		if m.Name != "b" {
			t.Errorf("rackd %q of %q lives", m.Name, m.Group)
		}
	}
}
