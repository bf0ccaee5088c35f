package conductor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// standIn are the groups that a rackd serves, as central's configuration of failovers has them.
type standIn struct {
	mu   sync.Mutex
	list []string
}

func (s *standIn) Served() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}
func (s *standIn) set(list ...string) { s.mu.Lock(); defer s.mu.Unlock(); s.list = list }
func (*standIn) Keys(string) []string { return testKey.IDs() }
func (*standIn) Synced() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// A rackd stands in for another group and runs a flow of one of its nodes. Where central's configuration of failovers changes, and this
// rackd is no longer to stand in, another rackd goes on with the flow: so this one writes nothing to the BMC. Where the node is deleted, it
// takes back what the flow has made ready.
func TestAGroupThatIsNoLongerServedIsNoNodeThatIsDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		deleted bool
		want    int // how often the ramdisk's boot is taken back
	}{
		"its group is no longer served": {want: 0},
		"it is deleted":                 {deleted: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bustest.Open(t)
			var log []string
			m := &machine{power: driver.PowerOff, clean: []driver.Step{inRamdisk("erase", true, time.Hour, &log)}}
			const group = "rack-a"
			groups := &standIn{list: []string{"rack-b", group}}
			keys := seal.NewKeyring(group, testKey)
			var b *Conductor
			made := make(chan struct{})
			v := view.New(s, keys, groups, noMetrics{}, func(id string) { <-made; b.NodeChanged(id) }, slog.New(slog.NewTextHandler(io.Discard, nil)))
			b, _, kill := conductorOn(t, newShelf(), "b", owned("b"), m, func(cfg *Config) { cfg.Documents, cfg.Keys, cfg.Group = v, keys, "rack-b" })
			close(made)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- v.Run(ctx) }()
			defer func() { kill(); cancel(); <-done }()
			<-v.Synced()
			until := func(what string, so func() bool) {
				t.Helper()
				for end := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("not so within a minute: %s; the work is %+v", what, v.Work(nodeA))
					}
				}
			}

			n := &node.Document{UUID: nodeA, Group: group, Driver: "t", State: provision.Cleaning, Generation: 1, Ports: []node.Port{{Address: "52:54:00:00:00:01", PXEEnabled: true}}}
			body, err := n.AppendSigned(nil, testKey)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Nodes.Put(t.Context(), bus.NodeKey(group, nodeA), body); err != nil {
				t.Fatal(err)
			}
			d := work.Document{ID: "work-1", Node: nodeA, Group: group, Generation: 1, Verb: work.Provide, Requested: time.Now(), Entry: provision.Cleaning,
				EntryTarget: provision.TargetOf(provision.Cleaning, provision.Event(work.Provide), "")}
			d.Sign(testKey)
			if body, err = d.Body(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Work.Create(t.Context(), bus.NodeKey(group, nodeA), body); err != nil {
				t.Fatal(err)
			}
			until("the flow waits for the ramdisk's agent", func() bool {
				w := v.Work(nodeA)
				return w != nil && w.Doc.Checkpoint.Facts[driver.FactBooted] != "" && w.Doc.State == provision.CleanWait
			})
			if err := b.LeftFence(n).Check(); !errors.Is(err, driver.ErrFenced) {
				t.Errorf("the node is there, and the fence of one that is deleted says %v", err)
			}

			if c.deleted {
				for _, kv := range []jetstream.KeyValue{s.Work, s.Nodes} {
					if err := kv.Delete(t.Context(), bus.NodeKey(group, nodeA)); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				groups.set("rack-b")
				v.Regroup()
			}
			until("the flow has ended here", func() bool { return v.Work(nodeA) == nil && !b.Knows(nodeA) && b.runner(nodeA) == nil })
			m.mu.Lock()
			if m.cleanedUp != c.want {
				t.Errorf("the ramdisk's boot was taken back %d times, want %d", m.cleanedUp, c.want)
			}
			m.mu.Unlock()
			if err := b.LeftFence(n).Check(); errors.Is(err, driver.ErrFenced) == c.deleted {
				t.Errorf("the fence of a deleted node says %v", err)
			}
			if c.deleted {
				return
			}
			// What the next owner goes on with is as it was.
			if _, err := s.Nodes.Get(t.Context(), bus.NodeKey(group, nodeA)); err != nil {
				t.Errorf("the node is deleted: %v", err)
			}
			e, err := s.Work.Get(t.Context(), bus.NodeKey(group, nodeA))
			if err != nil {
				t.Fatalf("the work is gone: %v", err)
			}
			if left, err := bus.ReadWork(e.Key(), e.Value()); err != nil || !left.Open() || left.State != provision.CleanWait || left.Checkpoint.Facts[driver.FactBooted] == "" {
				t.Errorf("the work is %+v, %v", left, err)
			}
			// It stands in again: what it no longer saw for a while is no deletion either, and the flow is its own once more.
			groups.set("rack-b", group)
			v.Regroup()
			until("the flow runs here again", func() bool { return b.runner(nodeA) != nil })
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.cleanedUp != 0 {
				t.Errorf("the ramdisk's boot was taken back %d times", m.cleanedUp)
			}
		})
	}
}
