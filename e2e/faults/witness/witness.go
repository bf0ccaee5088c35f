// Package witness watches the sites of a fault test from outside: it notes every
// version of every work document that it gets to see, with the time, so that a test can
// tell when work changed hands and a person can read afterwards what happened.
//
// It may import protocol. It only reads. While a bus is away it misses what is
// overwritten meanwhile; what it notes is true and in order.
package witness

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// Sight is one version of a node's work document, or its absence.
type Sight struct {
	At       time.Time     `json:"at"`
	Site     string        `json:"site"`
	Node     string        `json:"node"`
	Revision uint64        `json:"revision"`
	Written  time.Time     `json:"written"`        // by the bus' clock; At may be much later
	Gone     bool          `json:"gone,omitempty"` // the key was removed
	Doc      work.Document `json:"doc,omitzero"`
}

// Witness is safe for concurrent use.
type Witness struct {
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	log     io.Writer
	seen    []Sight
	newest  map[string]Sight // by node
	changed chan struct{}    // closed at the next sight
}

// New returns a witness that has seen nothing. log, if not nil, is given each sight as
// a line of JSON.
func New(log io.Writer) *Witness {
	return &Witness{log: log, newest: map[string]Sight{}, changed: make(chan struct{}), stop: func() {}}
}

// Follow watches a site on nc until Close. It returns at once.
func (w *Witness) Follow(ctx context.Context, site string, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	before := w.stop
	w.stop = func() { before(); stop() }
	w.work.Go(func() {
		for ctx.Err() == nil {
			w.watch(ctx, site, js)
		}
	})
	return nil
}

// again is how often a watch is begun anew: a bucket that was lost and made again has
// other revisions, and an old watch says nothing of it.
const again = 5 * time.Second

func (w *Witness) watch(ctx context.Context, site string, js jetstream.JetStream) {
	ctx, cancel := context.WithTimeout(ctx, again)
	defer cancel()
	kv, err := js.KeyValue(ctx, bus.WorkBucket)
	if err == nil {
		var watch jetstream.KeyWatcher
		if watch, err = kv.WatchAll(ctx); err == nil {
			defer watch.Stop()
			w.read(ctx, site, watch)
			return
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

func (w *Witness) read(ctx context.Context, site string, watch jetstream.KeyWatcher) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-watch.Updates():
			if !open {
				return
			}
			if e != nil {
				w.note(site, e)
			}
		}
	}
}

func (w *Witness) note(site string, e jetstream.KeyValueEntry) {
	s := Sight{At: time.Now(), Site: site, Node: bus.NodeOfKey(e.Key()), Revision: e.Revision(), Written: e.Created(), Gone: e.Operation() != jetstream.KeyValuePut}
	if !s.Gone && json.Unmarshal(e.Value(), &s.Doc) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, known := w.newest[s.Node]; known && old.Revision == s.Revision && old.Gone == s.Gone && old.Doc.Epoch == s.Doc.Epoch {
		return
	}
	w.newest[s.Node] = s
	w.seen = append(w.seen, s)
	if w.log != nil {
		json.NewEncoder(w.log).Encode(s) // a record for people; the test goes by memory
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// Seen returns all sights so far, in their order.
func (w *Witness) Seen() []Sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Sight(nil), w.seen...)
}

// Newest returns the newest sight of each node.
func (w *Witness) Newest() map[string]Sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.newest)
}

// Owned returns the open work that rackd, or with no name any rackd, owned last, by node.
func (w *Witness) Owned(rackd string) map[string]Sight {
	list := w.Newest()
	maps.DeleteFunc(list, func(_ string, s Sight) bool { return s.Gone || !s.Doc.Open() || rackd != "" && s.Doc.Owner != rackd })
	return list
}

// Await returns when ok holds, which is asked after each sight, or with ctx's error.
func (w *Witness) Await(ctx context.Context, ok func() bool) error {
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if ok() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Close ends all watches.
func (w *Witness) Close() {
	w.stop()
	w.work.Wait()
}
