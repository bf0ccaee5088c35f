package failover

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGroupsAreFollowed(t *testing.T) {
	s := bustest.Open(t)
	write := func(g bus.Group) {
		t.Helper()
		body, _ := json.Marshal(g)
		if _, err := s.Groups.Put(t.Context(), bus.GroupKey(g.Name), body); err != nil {
			t.Fatal(err)
		}
	}
	write(bus.Group{Name: "rack-a", Failover: []string{"Rack-B", "rack-c"}})
	if _, err := s.Groups.PutString(t.Context(), "broken", "{"); err != nil {
		t.Fatal(err)
	}
	var changes atomic.Int32
	g := New(s, "Rack-B", func() { changes.Add(1) }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-g.Synced()
	if got := g.Served(); !slices.Equal(got, []string{"rack-b", "rack-a"}) {
		t.Errorf("serves %v", got)
	}
	if !g.Serves("rack-b", "RACK-A") || !g.Serves("rack-x", "rack-x") || g.Serves("rack-a", "rack-b") || g.Of("rack-b") != nil {
		t.Error("stands in for the wrong groups")
	}
	write(bus.Group{Name: "rack-0", Failover: []string{"rack-b"}})
	if err := s.Groups.Delete(t.Context(), bus.GroupKey("rack-a")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); !slices.Equal(g.Served(), []string{"rack-b", "rack-0"}); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("serves %v, want the change seen", g.Served())
		}
	}
	if changes.Load() < 2 {
		t.Errorf("told %d times", changes.Load())
	}
}
