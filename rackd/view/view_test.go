package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/sidebyside"
	"github.com/ironyard/ironyard/protocol/work"
)

// atOnce is how many tests run side by side. Most of them wait for what a bus shows.
const atOnce = 8

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	// nats.go 1.55 starts this goroutine with each object that is put. If the goroutine first runs after the put has ended, it waits on
	// a channel that is nil by then, for ever.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// fleetKey is that of the tests' fleet.
var fleetKey = func() *seal.Key {
	k, err := seal.GenerateKey()
	if err != nil {
		panic(err)
	}
	return k
}()

// testKey is the key of a conductor group.
func testKey(group string) *seal.Key {
	k, err := fleetKey.ForGroup(group)
	if err != nil {
		panic(err)
	}
	return k
}

// keys are those of all groups.
type keys struct{}

func (keys) Of(group string) *seal.Key { return testKey(group) }
func (keys) Replaced() <-chan struct{} { return nil }

// forged counts by bucket.
type forged map[string]int

func (f forged) Forged(bucket string) { f[bucket]++ }

func put(t *testing.T, s *bus.Site, d node.Document) {
	t.Helper()
	body, err := d.AppendSigned(nil, testKey(d.Group))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Nodes.Put(t.Context(), bus.NodeKey(d.Group, d.UUID), body); err != nil {
		t.Fatal(err)
	}
}

// groups are the groups that are followed.
type groups []string

func (g groups) Served() []string         { return g }
func (groups) Keys(group string) []string { return testKey(group).IDs() }
func (groups) Synced() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestFollowsNodesAndFencesWork(t *testing.T) {
	t.Parallel()
	s := bustest.Open(t)
	put(t, s, node.Document{UUID: "n1", Group: "g", Ports: []node.Port{{Address: "52:54:00:00:00:01"}}})
	put(t, s, node.Document{UUID: "n2", Group: "other"})
	changed := make(chan string, 100)
	v := New(s, keys{}, groups{"g"}, forged{}, func(id string) { changed <- id }, slog.New(slog.NewTextHandler(io.Discard, nil)))
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
	t.Parallel()
	s := bustest.Open(t)
	s.CheckEvery = 250 * time.Millisecond
	changed := make(chan string, 100)
	v := New(s, keys{}, groups{"g", "h"}, forged{}, func(id string) { changed <- id }, slog.New(slog.DiscardHandler))
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
	lose := func() {
		t.Helper()
		if err := s.JS.DeleteKeyValue(ctx, bus.WorkBucket); err != nil {
			t.Fatal(err)
		}
		if _, err := bus.Open(ctx, s.Conn, "", bus.Settings{}); err != nil {
			t.Fatal(err)
		}
		until("the loss is known", func() bool { w := v.Work("n1"); return w != nil && w.Lost })
	}
	lose()
	if w := v.Work("n1"); w.Revision != 0 || w.Doc.Checkpoint.Step != "deploy.write_image" {
		t.Errorf("remembered %+v", w)
	}
	fresh.Epoch = 1 << 16
	create(fresh)
	until("central made it anew", func() bool { return !v.Work("n1").Lost })
	if w := v.Work("n1"); w.Revision == 0 || w.Doc.Checkpoint.Step != "deploy.write_image" || w.Doc.State != "wait call-back" || w.Doc.Epoch != 1<<16 || w.Doc.Owner != "" || !w.Remembered || w.Doc.Fresh() {
		t.Errorf("made anew: %+v", w)
	}
	lose()
	next := work.Document{ID: "next", Node: "n1", Group: "h", Generation: 1, Entry: "wait call-back", Epoch: 3 << 16, Lost: true,
		Args: work.Args{PowerTarget: "power off", Supersedes: "w", Continues: "w"}}
	create(next)
	until("central made what goes on with it", func() bool { return !v.Work("n1").Lost })
	if w := v.Work("n1"); w.Doc.ID != "next" || w.Doc.Checkpoint.Step != "deploy.write_image" || w.Doc.Owner != "" || !w.Remembered || w.Doc.Fresh() {
		t.Errorf("made anew to go on with it: %+v", w)
	}
}

// What central makes in place of lost work takes over what is remembered of that one, as it
// would have from the document itself.
func TestRemember(t *testing.T) {
	stood := work.Checkpoint{Step: "deploy.write_image", Index: 3, Agent: &work.Agent{URL: "a"}, Facts: map[string]string{work.FactBoot: "ramdisk"}}
	busy := stood
	busy.Errand = work.Errand{Phase: work.Ended, Told: true}
	old := work.Document{ID: "old", Generation: 2, Epoch: 5, Owner: "r", Seq: 7, State: "wait call-back", Checkpoint: stood}
	errand := old
	errand.ID, errand.Args.Continues, errand.Checkpoint = "errand", "old", busy
	unbegun := work.Document{ID: "old", Generation: 2}
	ended := old
	ended.State, ended.Result = "active", &work.Result{OK: true}
	over := stood
	over.Over = ended.Result
	anew := func(id string, generation int64, args work.Args) work.Document {
		return work.Document{ID: id, Generation: generation, Verb: work.Deploy, Epoch: 9 << 16, Lost: true, Args: args}
	}
	abort := anew("next", 3, work.Args{Supersedes: "old"})
	abort.Verb = work.Abort
	taken := anew("next", 3, work.Args{Supersedes: "old", Continues: "old"})
	taken.Owner, taken.Seq = "r", 1
	first := anew("next", 3, work.Args{Supersedes: "old", Continues: "old"})
	first.Lost = false
	for name, c := range map[string]struct {
		old, made work.Document
		want      bool
		stands    work.Checkpoint
	}{
		"the same work":                         {old, anew("old", 2, work.Args{}), true, stood},
		"it goes on with the work":              {old, anew("next", 3, work.Args{Supersedes: "old", Continues: "old"}), true, stood},
		"it goes on with work that has ended":   {ended, anew("next", 3, work.Args{Supersedes: "old", Continues: "old"}), true, over},
		"it goes on with work that had gone on": {errand, anew("next", 3, work.Args{Supersedes: "errand", Continues: "old"}), true, stood},
		"nobody has seen the one between":       {old, anew("next", 4, work.Args{Supersedes: "between", Continues: "old"}), true, stood},
		"it takes the place of the work":        {old, anew("next", 3, work.Args{Supersedes: "old"}), true, work.Checkpoint{}},
		"it aborts the work":                    {old, abort, true, work.Checkpoint{}},
		"other work":                            {old, anew("next", 3, work.Args{Supersedes: "other"}), false, work.Checkpoint{}},
		"the work had not begun":                {unbegun, anew("next", 3, work.Args{Supersedes: "old", Continues: "old"}), false, work.Checkpoint{}},
		"it is newer than what central made":    {old, anew("next", 2, work.Args{Supersedes: "old", Continues: "old"}), false, work.Checkpoint{}},
		"somebody has taken it":                 {old, taken, false, work.Checkpoint{}},
		"nothing was lost":                      {old, first, false, work.Checkpoint{}},
	} {
		d := c.made
		if got := remember(&d, &c.old); got != c.want || !reflect.DeepEqual(d.Checkpoint, c.stands) || d.ID != c.made.ID || d.Owner != c.made.Owner || got && (d.Fresh() || !d.Lost) {
			t.Errorf("%s: remembered %t: %+v", name, got, d)
		}
		if aborts := d.Verb == work.Abort; aborts != (d.Args.AbortedStep == stood.Step) || aborts != (d.Args.AbortedBoot == "ramdisk") {
			t.Errorf("%s: cut short %q, the machine ran %q", name, d.Args.AbortedStep, d.Args.AbortedBoot)
		}
	}
}

// The fence holds, whichever way the bus says that somebody else was faster.
func TestEveryConflictFences(t *testing.T) {
	t.Parallel()
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
	v := New(s, keys{}, groups{"g"}, forged{}, func(string) {}, slog.New(slog.DiscardHandler))
	for refusal, want := range map[jetstream.ErrorCode]bool{jetstream.JSErrCodeStreamWrongLastSequence: true,
		jetstream.JSErrCodeStreamWrongLastSequenceConstant: true, jetstream.JSErrCodeStreamNotFound: false} {
		code.Store(uint32(refusal))
		if _, err := v.UpdateWork(t.Context(), work.Document{ID: "w", Node: "n", Group: "g"}, 7); err == nil || errors.Is(err, ErrConflict) != want {
			t.Errorf("code %d: %v, a conflict: want %v", refusal, err, want)
		}
	}
}

// Work may be purged, and the watch may show that, before its last write has been answered.
func TestAnswerThatComesAfterThePurgeBringsNothingBack(t *testing.T) {
	t.Parallel()
	s := bustest.Open(t)
	d := work.Document{ID: "w", Node: "n1", Group: "g"}
	body, _ := json.Marshal(d)
	rev, err := s.Work.Create(t.Context(), bus.NodeKey("g", "n1"), body)
	if err != nil {
		t.Fatal(err)
	}
	// Its watch shows no more of the document: it is past the marker already.
	v := New(s, keys{}, groups{"g"}, forged{}, func(string) {}, slog.New(slog.DiscardHandler))
	if _, err := v.UpdateWork(t.Context(), d, rev); err != nil {
		t.Fatal(err)
	}
	if w := v.Work("n1"); w != nil {
		t.Errorf("the view shows work that is over: %+v", w)
	}
}
