// Package view is a rackd's memory of the conductor groups that it may serve: every
// node document and every work document, as the bus last showed them, with the
// indexes that netboot and the agents' door need.
//
// It may import protocol only. It is read-only towards the bus except through
// UpdateWork, whose compare-and-set is the fence. Documents handed out may be shared:
// readers must not change them. Node documents are packed in memory; only those of
// nodes with work are kept as they are read. What the bus loses stays here: a node is served on
// until central has written it anew, and where a piece of work stood is remembered,
// so that its next owner goes on from there.
package view

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrConflict means that somebody else wrote the work document first.
var ErrConflict = errors.New("the work document has changed")

// Work is a work document and the revision to compare with when writing it.
type Work struct {
	Doc work.Document
	// Revision is 0 or a marker's when the bus has lost the document: then its owner can
	// write it anew.
	Revision uint64
	// Lost: the bus does not hold the document; Doc is what it held, as far as this rackd
	// had seen.
	Lost bool
	// Remembered: the bus holds the work as central made it anew, or an older copy of it,
	// and Doc where it stood, which this rackd remembers.
	Remembered bool
	// Written is when the document was written, by the bus's clock; Seen when this rackd
	// saw it.
	Written, Seen time.Time
	// reread: the bucket is being read from its start; whatever comes is newer.
	reread bool
}

// Groups says which conductor groups this rackd may serve (rackd/failover).
type Groups interface {
	Synced() <-chan struct{}
	Served() []string
	// Keys returns the ids of the keys of a group that central hands out; empty where it does not say.
	Keys(group string) []string
}

// Keys are those of the conductor groups that this rackd may serve (seal.Keyring).
type Keys interface {
	// Of returns a group's key, nil for one that this rackd does not have.
	Of(group string) *seal.Key
	// Replaced is closed when others have taken the place of the keys that are there now.
	Replaced() <-chan struct{}
}

// Metrics count what an alarm is due for.
type Metrics interface {
	// Forged: a document of that bucket was not made by central.
	Forged(bucket string)
}

// View is safe for concurrent use.
type View struct {
	site    *bus.Site
	keys    Keys
	metrics Metrics
	groups  Groups
	log     *slog.Logger
	changed func(node string)
	regroup chan struct{}

	mu     sync.RWMutex
	nodes  map[string]*held
	byMAC  map[address]*held
	kinds  map[[2]string]*kind // by driver and group
	opened int                 // of nodes, those whose doc is set
	works  map[string]*Work    // by key: a node's work lies under the group that its document names
	liars  map[string]bool     // keys of works that are not their node's, and that was told
	ours   map[string]ours     // by key, what is being written
	shown  map[string]uint64   // by the group's part of a key, the revision of what the watch on WORK has shown last
	synced chan struct{}
	// checked is, by group, the last moment until which WORK had certainly lost nothing.
	checked map[string]time.Time
	// refused are the groups of which a node's document was refused since all were read last.
	refused map[string]bool
	late    int // of nodes, those that are late
	deleted deletions
	keyIDs  map[string]string // that documents name
}

// New returns an empty view; changed is called, from Run's goroutines, with the UUID
// of each node whose documents changed. Node documents that were not made with the group's key are
// not taken in. When the keys are replaced, those that were refused are read once more.
func New(site *bus.Site, keys Keys, groups Groups, metrics Metrics, changed func(node string), log *slog.Logger) *View {
	return &View{site: site, keys: keys, metrics: metrics, groups: groups, changed: changed, log: log, regroup: make(chan struct{}, 1),
		nodes: map[string]*held{}, byMAC: map[address]*held{}, kinds: map[[2]string]*kind{}, works: map[string]*Work{}, liars: map[string]bool{}, ours: map[string]ours{}, shown: map[string]uint64{}, synced: make(chan struct{}),
		checked: map[string]time.Time{}, refused: map[string]bool{}, keyIDs: map[string]string{}}
}

func (v *View) applyWork(e jetstream.KeyValueEntry) { v.takeWork(e, true) }

// takeWork takes in what the watch has shown, or what was read past it.
func (v *View) takeWork(e jetstream.KeyValueEntry, watched bool) {
	key, group := e.Key(), bus.GroupOfKey(e.Key())
	id := bus.NodeOfKey(key)
	v.mu.Lock()
	defer v.mu.Unlock()
	if watched {
		v.shown[group] = e.Revision()
	} else if _, known := v.shown[group]; !known {
		v.shown[group] = 0
	}
	old := v.works[key]
	if old != nil && !old.reread && old.Revision >= e.Revision() || old == nil && !watched && e.Revision() <= v.shown[group] {
		return // it is known, or known to be gone: the watch has shown all up to there
	}
	older := old != nil && e.Revision() < old.Revision // the bus has come back from an older copy
	if e.Operation() != jetstream.KeyValuePut {
		if older {
			v.loseWork(key, e.Revision())
		} else {
			v.dropWork(key)
		}
		return
	}
	d, err := v.readWork(key, e.Value())
	if err != nil {
		v.site.Refuse(v.log, bus.WorkBucket, key, err)
		return
	}
	if older && (d.Generation < old.Doc.Generation || d.ID == old.Doc.ID && d.Epoch <= old.Doc.Epoch) {
		v.log.Warn("the bus has come back from an older copy; work goes on from where it is known to have stood", "node", id, "work", old.Doc.ID,
			"epoch", old.Doc.Epoch, "epoch_of_copy", d.Epoch)
		v.works[key] = &Work{Doc: recall(old.Doc), Revision: e.Revision(), Remembered: true, Written: e.Created(), Seen: time.Now()}
		return
	}
	remembered := old != nil && remember(&d, &old.Doc)
	v.works[key] = &Work{Doc: d, Revision: e.Revision(), Remembered: remembered, Written: e.Created(), Seen: time.Now()}
}

// ours is a document of this rackd on its way to the bus. The watch often shows it
// before the answer comes, and it need not be read then.
type ours struct {
	doc  work.Document
	body []byte
}

func (v *View) readWork(key string, body []byte) (d work.Document, err error) {
	if o, writing := v.ours[key]; writing && bytes.Equal(o.body, body) {
		return o.doc, nil
	}
	return bus.ReadWork(key, body)
}

// remember puts into d, a document as central makes it, where the same piece of work
// stood, or what d takes over from the one whose place it takes: the bus had lost it, and
// central does not know that. Its epoch is above all that were.
func remember(d, old *work.Document) bool {
	switch {
	case !d.Fresh() || old.Fresh():
		return false
	case d.ID == old.ID:
		d.State, d.Target, d.Seq, d.Checkpoint, d.Result = old.State, old.Target, max(old.Seq, 1), old.Checkpoint, old.Result
	case d.Lost && d.Generation > old.Generation && (d.Args.Supersedes == old.ID || d.Continues(old)):
		d.Inherit(old)
		d.Seq = 1 // not fresh any more: it is known where it begins
	default:
		return false
	}
	d.Epoch = max(d.Epoch, old.Epoch)
	return true
}

// recall is what is to be written in place of an older copy of a document. Others may
// have gone on from that copy, or its owner may have taken it for lost, so its epoch is
// above all that they can reach.
func recall(d work.Document) work.Document {
	d.Epoch += 2 * work.LostEpochs
	d.Lost = true
	if !d.Open() {
		d.Owner, d.Lease = "", ""
	}
	return d
}

// reread prepares for all documents of a group to come again, with any revisions.
func (v *View) reread(group string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, w := range v.works {
		if bus.GroupOfKey(key) == bus.GroupToken(group) {
			again := *w
			again.reread = true
			v.works[key] = &again
		}
	}
}

// missed marks what the bus has lost: its owner writes it anew, or central does.
func (v *View) missed(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.loseWork(key, 0)
}

// loseWork does so for a key that is at revision, with the lock held.
func (v *View) loseWork(key string, revision uint64) {
	old := v.works[key]
	if old == nil {
		return
	}
	v.log.Warn("the bus has lost a work document; its owner writes it again from memory, or central does", "node", old.Doc.Node, "work", old.Doc.ID, "epoch", old.Doc.Epoch)
	v.works[key] = &Work{Doc: old.Doc, Revision: revision, Lost: true, Written: old.Written, Seen: old.Seen}
}

// UpdateWork writes doc if its key is still at revision and returns the new one;
// ErrConflict says that it was not. The view shows the write at once. It shares what doc
// refers to, all but the facts: the caller may replace that and must not change it.
func (v *View) UpdateWork(ctx context.Context, doc work.Document, revision uint64) (uint64, error) {
	body, err := doc.Body()
	if err != nil {
		return 0, err
	}
	doc.Checkpoint.Facts = maps.Clone(doc.Checkpoint.Facts)
	key := bus.NodeKey(doc.Group, doc.Node)
	v.mu.Lock()
	v.ours[key] = ours{doc, body}
	v.mu.Unlock()
	rev, err := v.site.Update(ctx, v.site.Work, key, body, revision)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.ours, key)
	if err != nil {
		if bus.Conflict(err) {
			return 0, fmt.Errorf("work %s of node %s: %w", doc.ID, doc.Node, ErrConflict)
		}
		return 0, fmt.Errorf("write work %s of node %s: %w", doc.ID, doc.Node, err)
	}
	// Where there is nothing, the watch has already shown that the document was purged after this write.
	if old := v.works[key]; old != nil && (old.reread || old.Revision < rev) {
		v.works[key] = &Work{Doc: doc, Revision: rev, Written: time.Now(), Seen: time.Now()}
	}
	return rev, nil
}

// ErrNoWork: the bus has no work of the node.
var ErrNoWork = errors.New("there is none")

// RefreshWork reads a node's work document from the bus, past the watch. A document
// that is not there is ErrNoWork: its marker comes by the watch.
func (v *View) RefreshWork(ctx context.Context, group, id string) error {
	e, err := v.site.Work.Get(ctx, bus.NodeKey(group, id))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		err = ErrNoWork
	}
	if err != nil {
		return fmt.Errorf("read the work of node %s: %w", id, err)
	}
	v.takeWork(e, false)
	v.changed(id)
	return nil
}

// Publish sends an event; the bus drops it when it has one with that id already.
func (v *View) Publish(ctx context.Context, e work.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := v.site.Publish(ctx, bus.EventSubject(e.Group, e.Node), e.ID, body); err != nil {
		return fmt.Errorf("publish event %s of node %s: %w", e.ID, e.Node, err)
	}
	return nil
}

// ErrDriveLost means that the site's store does not have a config drive. Central, which is told, writes it again.
var ErrDriveLost = errors.New("the site's store does not have it; central is asked to write it again")

// driveWithin bounds how long a config drive is read. The site's store hands it out in pieces.
const driveWithin = 30 * time.Second

// ConfigDrive reads a config drive from the site's object store. The client library waits for each piece
// until the context's deadline, whether the context has ended or not. So the caller does not wait for it.
func (v *View) ConfigDrive(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, driveWithin, fmt.Errorf("the site's store has not handed it out within %s", driveWithin))
	type drive struct {
		text string
		err  error
	}
	read := make(chan drive, 1)
	go func() {
		defer cancel()
		text, err := v.site.Drives.GetString(ctx, name)
		read <- drive{text, err}
	}()
	var got drive
	select {
	case got = <-read:
	case <-ctx.Done():
		got.err = context.Cause(ctx)
	}
	if errors.Is(got.err, jetstream.ErrObjectNotFound) || errors.Is(got.err, jetstream.ErrBucketNotFound) || errors.Is(got.err, nats.ErrNoResponders) {
		v.site.BeatLost()
		got.err = fmt.Errorf("%w: %w", ErrDriveLost, got.err)
	}
	if got.err != nil {
		return "", fmt.Errorf("read config drive %s: %w", name, got.err)
	}
	return got.text, nil
}

// Work returns a node's work, nil when there is none.
func (v *View) Work(id string) *Work {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.workOf(id)
}
