package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func put(t *testing.T, s *bus.Site, d node.Document) {
	t.Helper()
	body, err := d.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Nodes.Put(t.Context(), bus.NodeKey(d.Group, d.UUID), body); err != nil {
		t.Fatal(err)
	}
}

// groups are the groups that are followed.
type groups []string

func (g groups) Served() []string { return g }
func (groups) Synced() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestFollowsNodesAndFencesWork(t *testing.T) {
	s := bustest.Open(t)
	put(t, s, node.Document{UUID: "n1", Group: "g", Ports: []node.Port{{Address: "52:54:00:00:00:01"}}})
	put(t, s, node.Document{UUID: "n2", Group: "other"})
	changed := make(chan string, 100)
	v := New(s, groups{"g"}, func(id string) { changed <- id }, slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	<-v.Synced()
	if v.NodeByMAC("52:54:00:00:00:01") == nil || v.Node("n2") != nil {
		t.Error("want the group's nodes, all of them and no other")
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		limit := time.After(10 * time.Second)
		for !ok() {
			select {
			case <-changed:
			case <-limit:
				t.Fatalf("not within 10 s: %s", what)
			}
		}
	}
	put(t, s, node.Document{UUID: "n1", Group: "g", Ports: []node.Port{{Address: "52:54:00:00:00:02"}}})
	until("the port's address changed", func() bool {
		return v.NodeByMAC("52:54:00:00:00:02") != nil && v.NodeByMAC("52:54:00:00:00:01") == nil
	})

	d := work.Document{ID: "w", Node: "n1", Group: "g"}
	body, _ := json.Marshal(d)
	rev, err := s.Work.Create(ctx, bus.NodeKey("g", "n1"), body)
	if err != nil {
		t.Fatal(err)
	}
	until("the work came", func() bool { return v.Work("n1") != nil })
	d.Owner = "a"
	next, err := v.UpdateWork(ctx, d, rev)
	if err != nil {
		t.Fatal(err)
	}
	if w := v.Work("n1"); w.Doc.Owner != "a" || w.Revision != next {
		t.Errorf("the view does not show the write at once: %+v", w)
	}
	d.Owner = "b"
	if _, err := v.UpdateWork(ctx, d, rev); !errors.Is(err, ErrConflict) {
		t.Errorf("a write at an old revision: %v, want ErrConflict", err)
	}
	if err := s.Work.Purge(ctx, bus.NodeKey("g", "n1")); err != nil {
		t.Fatal(err)
	}
	until("the work went", func() bool { return v.Work("n1") == nil })

	e := work.Event{ID: "w/1/1", Node: "n1", Group: "g"}
	for range 2 {
		if err := v.Publish(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := s.Events.Info(ctx); err != nil || info.State.Msgs != 1 {
		t.Errorf("an event published twice is there %d times, %v", info.State.Msgs, err)
	}
}

// The bus loses all work; central makes it anew without knowing where it stood.
func TestWhereLostWorkStoodIsRemembered(t *testing.T) {
	s := bustest.Open(t)
	changed := make(chan string, 100)
	v := New(s, groups{"g", "h"}, func(id string) { changed <- id }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	<-v.Synced()
	until := func(what string, ok func() bool) {
		t.Helper()
		limit := time.After(30 * time.Second)
		for !ok() {
			select {
			case <-changed:
			case <-limit:
				t.Fatalf("not within 30 s: %s", what)
			}
		}
	}
	create := func(d work.Document) uint64 {
		t.Helper()
		body, _ := json.Marshal(d)
		rev, err := s.Work.Create(ctx, bus.NodeKey(d.Group, d.Node), body)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	fresh := work.Document{ID: "w", Node: "n1", Group: "h", Entry: "deploying"}
	rev := create(fresh)
	taken := fresh
	taken.Owner, taken.Epoch, taken.State, taken.Seq = "a", 3, "wait call-back", 7
	taken.Checkpoint.Step = "deploy.write_image"
	if _, err := v.UpdateWork(ctx, taken, rev); err != nil {
		t.Fatal(err)
	}
	if err := s.JS.DeleteKeyValue(ctx, bus.WorkBucket); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Open(ctx, s.Conn, "", bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	until("the loss is known", func() bool { w := v.Work("n1"); return w != nil && w.Lost })
	if w := v.Work("n1"); w.Revision != 0 || w.Doc.Checkpoint.Step != "deploy.write_image" {
		t.Errorf("remembered %+v", w)
	}
	fresh.Epoch = 1 << 16
	create(fresh)
	until("central made it anew", func() bool { return !v.Work("n1").Lost })
	if w := v.Work("n1"); w.Revision == 0 || w.Doc.Checkpoint.Step != "deploy.write_image" || w.Doc.State != "wait call-back" || w.Doc.Epoch != 1<<16 || w.Doc.Owner != "" || !w.Remembered || w.Doc.Fresh() {
		t.Errorf("made anew: %+v", w)
	}
}

// The fence holds, whichever way the bus says that somebody else was faster.
func TestEveryConflictFences(t *testing.T) {
	s := bustest.Open(t)
	if err := s.JS.DeleteKeyValue(t.Context(), bus.WorkBucket); err != nil {
		t.Fatal(err)
	}
	var code atomic.Uint32 // what a server in the bucket's place refuses with
	sub, err := s.Conn.Subscribe("$KV."+bus.WorkBucket+".>", func(m *nats.Msg) {
		m.Respond(fmt.Appendf(nil, `{"error":{"code":400,"err_code":%d,"description":"refused"}}`, code.Load()))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	v := New(s, groups{"g"}, func(string) {}, slog.New(slog.DiscardHandler))
	for refusal, want := range map[jetstream.ErrorCode]bool{jetstream.JSErrCodeStreamWrongLastSequence: true,
		jetstream.JSErrCodeStreamWrongLastSequenceConstant: true, jetstream.JSErrCodeStreamNotFound: false} {
		code.Store(uint32(refusal))
		if _, err := v.UpdateWork(t.Context(), work.Document{ID: "w", Node: "n", Group: "g"}, 7); err == nil || errors.Is(err, ErrConflict) != want {
			t.Errorf("code %d: %v, a conflict: want %v", refusal, err, want)
		}
	}
}
