package lease

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// A stolen rackd writes its own entry and ends it, again and again. Others still tell of the dead.
func TestTheDeadAreToldBesideAThief(t *testing.T) {
	t.Parallel()
	s, srv := openSite(t)
	a, changes, stop := holder(t, s, "a")
	until(t, changes, "a is there", func() bool { return a.Check() == nil })
	nc := bustest.Connect(t, srv)
	beats, err := s.Beats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(bus.Member{Name: "thief", Group: "rack-b", Instance: "thief"})
	if err != nil {
		t.Fatal(err)
	}
	there := false
	flip := func() {
		msg := nats.NewMsg("$KV." + bus.AliveBucket + "." + bus.MemberKey("rack-b", "thief"))
		if there = !there; there {
			msg.Data = body
		} else {
			msg.Header.Set("KV-Operation", "PURGE")
		}
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 4 * toldAtOnce {
		<-tick.C
		flip()
	}
	if _, err := s.Announce(t.Context(), bus.Member{Name: "dead", Group: "rack-b", Instance: "dead"}, 0); err != nil {
		t.Fatal(err)
	}
	dead, others := bus.MemberKey("rack-b", "dead"), 0
	for told, limit := false, time.After(15*time.Second); !told; {
		select {
		case <-tick.C:
			flip()
		case <-changes: // there are many
		case b := <-beats:
			if b.Gone != "" && b.Gone != dead {
				others++
			}
			told = b.Gone == dead && b.Key == bus.MemberKey("rack-a", "a")
		case <-limit:
			t.Fatalf("nobody tells of the dead one, of others %d times", others)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
