package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// A stolen rackd of another group says under its own key that it has tens of thousands of hardware types, and is another
// rackd each time. No rackd builds rings of that: each would hold up its lease, and so all work of the site.
func TestThiefWithManyHardwareTypes(t *testing.T) {
	t.Parallel()
	s, _ := openSite(t)
	b, changes, stop := holder(t, s, "b")
	until(t, changes, "b is there", func() bool { return b.Check() == nil && b.Owner("n", "redfish", "rack-b") == "b" })
	m := bus.Member{Name: "thief", Group: "rack-a", Drivers: map[string]map[string][]string{}}
	for i := range 80_000 {
		m.Drivers[fmt.Sprintf("%05x", i)] = nil
	}
	begun, longest := time.Now(), time.Duration(0)
	for range 10 {
		m.Instance, m.Lease = uuid.NewString(), uuid.NewString()
		thief(t, s, m)
	}
	for time.Since(begun) < 8*time.Second {
		began := time.Now()
		err := b.Confirm()
		longest = max(longest, time.Since(began))
		if err != nil {
			t.Errorf("after %v: %v", time.Since(begun), err)
			break
		}
	}
	t.Logf("a confirmation took %v at most", longest)
	if longest > time.Second {
		t.Errorf("a confirmation took %v", longest)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// lines counts what is logged.
type lines struct{ atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) { l.Add(1); return len(p), nil }

// A stolen rackd is another one each time that it announces itself, as often as the bus takes it. That costs the rackds of
// other groups few lines and few rings, and no lease.
func TestThiefThatComesAndGoes(t *testing.T) {
	s, srv := openSite(t)
	var log lines
	var changed atomic.Int64
	b := New(s, bus.Member{Name: "b", Group: "rack-b", Drivers: map[string]map[string][]string{"redfish": nil}}, groups{}, func() error { return nil },
		func() { changed.Add(1) }, slog.New(slog.NewTextHandler(&log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	for end := time.Now().Add(20 * time.Second); b.Check() != nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	m := bus.Member{Name: "thief", Group: "rack-a", Drivers: map[string]map[string][]string{"redfish": nil}}
	nc := bustest.Connect(t, srv)
	sent, longest := 0, time.Duration(0)
	for begun := time.Now(); time.Since(begun) < 5*time.Second; {
		for range 100 {
			m.Instance, m.Lease = fmt.Sprint("i", sent), fmt.Sprint("l", sent)
			body, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			msg := nats.NewMsg("$KV." + bus.AliveBucket + "." + bus.MemberKey("rack-a", "thief"))
			msg.Data = body
			msg.Header.Set("Nats-TTL", "3s")
			if err := nc.PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := b.Confirm(); err != nil {
			t.Errorf("after %d announcements: %v", sent, err)
			break
		}
		longest = max(longest, time.Since(began))
	}
	t.Logf("%d announcements; %d lines, %d changes; a confirmation took %v at most", sent, log.Load(), changed.Load(), longest)
	if log.Load() > 200 || changed.Load() > 200 {
		t.Errorf("%d announcements made %d lines and %d looks at all nodes", sent, log.Load(), changed.Load())
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
