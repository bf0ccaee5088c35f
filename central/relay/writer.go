package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
)

// writer writes to one site.
type writer struct {
	*Config
	site   *bus.Site
	log    *slog.Logger
	inbox  *inbox
	done   []*store.Outbox // published, not yet deleted
	memory *siteMemory
	*repairs
}

// Writing to a site crosses a WAN: many nodes at once, each bounded in time.
const (
	parallel     = 32
	writeTimeout = 10 * time.Second
)

// target is a node's keys at a site, in the group that an entry names: the node may
// have moved to another group since.
type target struct {
	node  string
	token string // bus.GroupToken of the group
}

func (t target) key() string { return t.token + "." + t.node }

// order asks for the keys of a target to be made to fit the rows.
type order struct {
	target
	// sends are the works whose own entries gave the order.
	sends []string
	// repair: the site may have lost documents that it had.
	repair bool
	err    error // how it went
}

// publish does what the entries ask for and returns those that are done. Nodes of
// which something failed go into blocked, and entries about blocked nodes wait.
func (w *writer) publish(ctx context.Context, batch []*store.Outbox, blocked map[string]bool) (done []*store.Outbox, err error) {
	var errs []error
	for _, o := range batch {
		if o.Kind != store.OutboxDrive || blocked[o.Node] {
			continue
		}
		if err := w.putDrive(ctx, o); err != nil {
			blocked[o.Node] = true
			errs = append(errs, err)
		}
	}
	byTarget := map[target]*order{}
	var orders []*order
	for _, o := range batch {
		if o.Kind != store.OutboxNode || blocked[o.Node] {
			continue
		}
		t := target{o.Node, bus.GroupToken(o.Group)}
		if byTarget[t] == nil {
			byTarget[t] = &order{target: t}
			orders = append(orders, byTarget[t])
		}
		if o.Object != "" {
			byTarget[t].sends = append(byTarget[t].sends, o.Object)
		}
	}
	if err := w.sync(ctx, orders); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	for _, o := range orders {
		if o.err != nil {
			blocked[o.node] = true
			errs = append(errs, o.err)
		}
	}
	for _, o := range batch {
		switch {
		case blocked[o.Node]:
		case o.Kind == store.OutboxDrive, o.Kind == store.OutboxNode:
			done = append(done, o)
		default:
			// Written by a newer version of central, which will publish it.
			errs = append(errs, fmt.Errorf("outbox entry %s of node %s has the unknown kind %q", o.ID, o.Node, o.Kind))
		}
	}
	return done, errors.Join(errs...)
}

func (w *writer) putDrive(ctx context.Context, o *store.Outbox) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if _, err := w.site.Drives.PutString(ctx, o.Object, o.Payload); err != nil {
		return fmt.Errorf("put config drive %s of node %s: %w", o.Object, o.Node, err)
	}
	return nil
}

// sync makes the keys of each order's target fit the rows and leaves in the order how
// that went. It fails as a whole only when the rows cannot be read.
func (w *writer) sync(ctx context.Context, orders []*order) error {
	seen := map[string]bool{}
	var ids []string
	for _, o := range orders {
		if !seen[o.node] {
			seen[o.node] = true
			ids = append(ids, o.node)
		}
	}
	rows, err := w.Store.Snapshots(ctx, ids)
	if err != nil {
		return err
	}
	waiting, err := w.waiting(ctx, orders, rows)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, o := range orders {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, writeTimeout)
			defer cancel()
			o.err = w.syncOne(ctx, o, rows[o.node], waiting)
			return nil
		})
	}
	return g.Wait() // nil: each error is its order's
}

// waiting returns the works among those that orders repair whose own entries have yet
// to send them out, as they will. It is read after the rows: what has entries in
// neither has been at the site.
func (w *writer) waiting(ctx context.Context, orders []*order, rows map[string]*store.Snapshot) (map[string]bool, error) {
	var works []string
	for _, o := range orders {
		if row := rows[o.node]; o.repair && row != nil && row.Work != nil {
			works = append(works, row.Work.ID)
		}
	}
	return w.Store.OnTheirWay(ctx, w.site.Name, works)
}

func (w *writer) syncOne(ctx context.Context, o *order, row *store.Snapshot, waiting map[string]bool) error {
	if row == nil || bus.GroupToken(row.Node.ConductorGroup) != o.token || w.SiteOf(row.Node.ConductorGroup) != w.site.Name {
		// Deleted, or moved to a group whose own entry puts it there.
		return errors.Join(w.purge(ctx, w.site.Work, o.target), w.purge(ctx, w.site.Nodes, o.target))
	}
	if err := w.putNode(ctx, o.target, row); err != nil {
		return fmt.Errorf("write the document of node %s: %w", o.node, err)
	}
	pointHalf.Hit(w.site.Name)
	why := told
	if row.Work != nil && slices.Contains(o.sends, row.Work.ID) {
		why = sending
	} else if row.Work != nil && o.repair && !waiting[row.Work.ID] {
		why = repairing
	}
	if err := w.syncWork(ctx, o.target, row, why); err != nil {
		return fmt.Errorf("write the work of node %s: %w", o.node, err)
	}
	return nil
}

func (w *writer) purge(ctx context.Context, kv jetstream.KeyValue, t target) error {
	if _, err := kv.Get(ctx, t.key()); errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err := kv.Purge(ctx, t.key()); err != nil {
		return fmt.Errorf("purge %s of %s: %w", t.key(), kv.Bucket(), err)
	}
	return nil
}

// attempts bounds compare-and-set on one key; each failure means that somebody
// else got on.
const attempts = 8

// errRaced means that a key changed between the read and the write.
var errRaced = errors.New("somebody else wrote the key each time")

// put writes body under key if the key is still at rev, 0 for none. raced means
// that it was not.
func put(ctx context.Context, kv jetstream.KeyValue, m *memory, key string, body []byte, rev uint64) (raced bool, err error) {
	if rev == 0 {
		rev, err = kv.Create(ctx, key, body)
	} else {
		rev, err = kv.Update(ctx, key, body, rev)
	}
	switch {
	case isRace(err):
		return true, nil
	case err != nil:
		return false, err
	}
	m.wrote(rev)
	return false, nil
}

func isRace(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
