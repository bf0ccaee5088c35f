package imagemirror

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// rack is what a mirror sees, and what it copied.
type rack struct {
	mu     sync.Mutex
	works  map[string]work.Document
	fails  bool
	copies []string
}

func (r *rack) Work(node string) *view.Work {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.works[node]
	if !ok {
		return nil
	}
	return &view.Work{Doc: d}
}

func (r *rack) Nodes() (nodes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.works {
		nodes = append(nodes, n)
	}
	return nodes
}

func (r *rack) copy(_ context.Context, id string, from bus.Member) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copies = append(r.copies, from.BootURL+" "+id)
	if r.fails {
		return errors.New("no route")
	}
	return nil
}

func (r *rack) neighbours() []bus.Member {
	return []bus.Member{{Name: "rackd-2", BootURL: "http://two"}, {Name: "rackd-3", BootURL: "http://three"}}
}

func (r *rack) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.copies
	r.copies = nil
	slices.Sort(got)
	return got
}

func deploy(owner, image string) work.Document {
	return work.Document{Owner: owner, Checkpoint: work.Checkpoint{Facts: map[string]string{driver.FactImage: image}}}
}

func running(t *testing.T, r *rack) (*Mirror, func()) {
	m := New(Config{Name: "rackd-1", Documents: r, Neighbours: r.neighbours, Copy: r.copy, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	return m, func() { cancel(); <-done }
}

func TestCopiesWhatNeighboursDeployFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := deploy("rackd-2", "sha256-e")
		ended.Result = &work.Result{OK: true}
		own := deploy("rackd-3", "sha256-b")
		own.Checkpoint.Facts[driver.FactKernel], own.Checkpoint.Facts[driver.FactRamdisk] = "sha256-k", "sha256-r"
		r := &rack{works: map[string]work.Document{
			"a": deploy("rackd-2", "sha256-a"), "b": own,
			"mine": deploy("rackd-1", "sha256-m"), "early": deploy("rackd-2", ""), "ended": ended, "stranger": deploy("rackd-9", "sha256-s"),
		}}
		m, stop := running(t, r)
		defer stop()
		for range 3 { // as a checkpoint every two seconds nudges
			for _, node := range append(r.Nodes(), "gone") {
				m.NodeChanged(node)
			}
			synctest.Wait()
		}
		if got, want := r.taken(), []string{"http://three sha256-b", "http://three sha256-k", "http://three sha256-r", "http://two sha256-a"}; !slices.Equal(got, want) {
			t.Errorf("copied %q, want %q", got, want)
		}
		// Rackd-2 dies and rackd-3 takes its work: nothing new is needed.
		r.mu.Lock()
		r.works["a"] = deploy("rackd-3", "sha256-a")
		r.mu.Unlock()
		m.NodeChanged("a")
		synctest.Wait()
		if got := r.taken(); got != nil {
			t.Errorf("copied %q again", got)
		}
		time.Sleep(again)
		synctest.Wait()
		if got, want := r.taken(), []string{"http://three sha256-a", "http://three sha256-b", "http://three sha256-k", "http://three sha256-r"}; !slices.Equal(got, want) {
			t.Errorf("after a while %q were marked as used, want %q", got, want)
		}
	})
}

func TestCopyThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rack{works: map[string]work.Document{"a": deploy("rackd-2", "sha256-a")}, fails: true}
		m, stop := running(t, r)
		defer stop()
		m.NodeChanged("a")
		synctest.Wait()
		if len(r.taken()) != 1 {
			t.Fatal("not tried")
		}
		r.mu.Lock()
		r.fails = false
		r.mu.Unlock()
		time.Sleep(again)
		synctest.Wait()
		if len(r.taken()) != 1 {
			t.Error("not tried again")
		}
	})
}
