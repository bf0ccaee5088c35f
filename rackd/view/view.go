// Package view is a rackd's memory of its conductor group: every node document
// and every work document, as the bus last showed them, with the indexes that
// netboot and the agents' door need.
//
// It may import protocol only. It is read-only towards the bus except through
// UpdateWork, whose compare-and-set is the fence. Documents handed out are shared:
// readers must not change them.
package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// ErrConflict means that somebody else wrote the work document first.
var ErrConflict = errors.New("the work document has changed")

// Work is a work document and the revision to compare with when writing it.
type Work struct {
	Doc      work.Document
	Revision uint64
}

// View is safe for concurrent use.
type View struct {
	site    *bus.Site
	group   string
	log     *slog.Logger
	changed func(node string)

	mu      sync.RWMutex
	nodes   map[string]*node.Document
	works   map[string]*Work
	byMAC   map[string]string
	pending int
	synced  chan struct{}
}

// New returns an empty view of group; changed is called, from Run's goroutines,
// with the UUID of each node whose documents changed.
func New(site *bus.Site, group string, changed func(node string), log *slog.Logger) *View {
	return &View{site: site, group: group, changed: changed, log: log, pending: 2,
		nodes: map[string]*node.Document{}, works: map[string]*Work{}, byMAC: map[string]string{}, synced: make(chan struct{})}
}

// Synced is closed once all that was on the bus at the start is in the view.
func (v *View) Synced() <-chan struct{} { return v.synced }

// Run follows the buckets until ctx ends.
func (v *View) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return v.follow(ctx, v.site.Nodes, bus.NodesBucket, v.applyNode) })
	g.Go(func() error { return v.follow(ctx, v.site.Work, bus.WorkBucket, v.applyWork) })
	return g.Wait()
}

func (v *View) follow(ctx context.Context, kv jetstream.KeyValue, name string, apply func(jetstream.KeyValueEntry)) error {
	watch, err := kv.Watch(ctx, bus.GroupToken(v.group)+".>")
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", name, err)
	}
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-watch.Updates():
			switch {
			case !open && ctx.Err() != nil:
				return nil
			case !open:
				return fmt.Errorf("the watch on bucket %s ended", name)
			case e == nil:
				v.mu.Lock()
				if v.pending--; v.pending == 0 {
					close(v.synced)
				}
				v.mu.Unlock()
			default:
				apply(e)
				v.changed(bus.NodeOfKey(e.Key()))
			}
		}
	}
}

func (v *View) applyNode(e jetstream.KeyValueEntry) {
	id := bus.NodeOfKey(e.Key())
	v.mu.Lock()
	defer v.mu.Unlock()
	if old := v.nodes[id]; old != nil {
		for _, p := range old.Ports {
			if v.byMAC[p.Address] == id {
				delete(v.byMAC, p.Address)
			}
		}
		delete(v.nodes, id)
	}
	if e.Operation() != jetstream.KeyValuePut {
		return
	}
	var n node.Document
	if err := json.Unmarshal(e.Value(), &n); err != nil || n.UUID != id {
		v.log.Error("unreadable node document ignored", "key", e.Key(), "error", err)
		return
	}
	v.nodes[id] = &n
	for _, p := range n.Ports {
		v.byMAC[p.Address] = id
	}
}

func (v *View) applyWork(e jetstream.KeyValueEntry) {
	id := bus.NodeOfKey(e.Key())
	v.mu.Lock()
	defer v.mu.Unlock()
	if e.Operation() != jetstream.KeyValuePut {
		if old := v.works[id]; old == nil || old.Revision < e.Revision() {
			delete(v.works, id)
		}
		return
	}
	var d work.Document
	if err := json.Unmarshal(e.Value(), &d); err != nil || d.Node != id {
		v.log.Error("unreadable work document ignored", "key", e.Key(), "error", err)
		return
	}
	if old := v.works[id]; old == nil || old.Revision < e.Revision() {
		v.works[id] = &Work{Doc: d, Revision: e.Revision()}
	}
}

// UpdateWork writes doc if its key is still at revision and returns the new one;
// ErrConflict says that it was not. The view shows the write at once.
func (v *View) UpdateWork(ctx context.Context, doc work.Document, revision uint64) (uint64, error) {
	body, err := json.Marshal(doc)
	if err != nil {
		return 0, err
	}
	rev, err := v.site.Work.Update(ctx, bus.NodeKey(doc.Group, doc.Node), body, revision)
	if err != nil {
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return 0, fmt.Errorf("work %s of node %s: %w", doc.ID, doc.Node, ErrConflict)
		}
		return 0, fmt.Errorf("write work %s of node %s: %w", doc.ID, doc.Node, err)
	}
	var copied work.Document
	if err := json.Unmarshal(body, &copied); err != nil {
		return 0, err
	}
	v.mu.Lock()
	if old := v.works[doc.Node]; old == nil || old.Revision < rev {
		v.works[doc.Node] = &Work{Doc: copied, Revision: rev}
	}
	v.mu.Unlock()
	return rev, nil
}

// Publish sends an event; the bus drops it when it has one with that id already.
func (v *View) Publish(ctx context.Context, e work.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	opts := []jetstream.PublishOpt{}
	if e.ID != "" {
		opts = append(opts, jetstream.WithMsgID(e.ID))
	}
	if _, err := v.site.JS.Publish(ctx, bus.EventSubject(e.Group, e.Node), body, opts...); err != nil {
		return fmt.Errorf("publish event %s of node %s: %w", e.ID, e.Node, err)
	}
	return nil
}

// ConfigDrive reads a config drive from the site's object store.
func (v *View) ConfigDrive(ctx context.Context, name string) (string, error) {
	text, err := v.site.Drives.GetString(ctx, name)
	if err != nil {
		return "", fmt.Errorf("read config drive %s: %w", name, err)
	}
	return text, nil
}

// Node returns a node's document, nil when it is not known.
func (v *View) Node(id string) *node.Document {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.nodes[id]
}

// NodeByMAC returns the node with a port of that address (lower case).
func (v *View) NodeByMAC(mac string) *node.Document {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.nodes[v.byMAC[mac]]
}

// Work returns a node's work, nil when there is none.
func (v *View) Work(id string) *Work {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.works[id]
}

// Nodes returns the UUIDs of all nodes that have a document or work.
func (v *View) Nodes() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	ids := make([]string, 0, len(v.nodes))
	for id := range v.nodes {
		ids = append(ids, id)
	}
	for id := range v.works {
		if v.nodes[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
