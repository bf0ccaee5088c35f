package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	site  *bus.Site
	log   *slog.Logger
	inbox *inbox
	done  []*store.Outbox // published, not yet deleted
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
	targets := map[target]error{}
	for _, o := range batch {
		if o.Kind == store.OutboxNode && !blocked[o.Node] {
			targets[target{o.Node, bus.GroupToken(o.Group)}] = nil
		}
	}
	if err := w.sync(ctx, targets, false); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	for t, err := range targets {
		// Work whose config drive is not there yet has entries of its own further
		// on, the drive's and then its own.
		if err != nil && !errors.Is(err, errNoDrive) {
			blocked[t.node] = true
			errs = append(errs, err)
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

// sync makes the keys of each target fit the rows and leaves in targets how that
// went. It fails as a whole only when the rows cannot be read. driveless lets work
// go out whose config drive is missing.
func (w *writer) sync(ctx context.Context, targets map[target]error, driveless bool) error {
	seen := map[string]bool{}
	var ids []string
	for t := range targets {
		if !seen[t.node] {
			seen[t.node] = true
			ids = append(ids, t.node)
		}
	}
	rows, err := w.Store.Snapshots(ctx, ids)
	if err != nil {
		return err
	}
	list := slices.Collect(maps.Keys(targets))
	results := make([]error, len(list))
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, t := range list {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, writeTimeout)
			defer cancel()
			results[i] = w.syncOne(ctx, t, rows[t.node], driveless)
			return nil
		})
	}
	g.Wait() // each error is its target's
	for i, t := range list {
		targets[t] = results[i]
	}
	return nil
}

func (w *writer) syncOne(ctx context.Context, t target, row *store.Snapshot, driveless bool) error {
	if row == nil || bus.GroupToken(row.Node.ConductorGroup) != t.token || w.SiteOf(row.Node.ConductorGroup) != w.site.Name {
		// Deleted, or moved to a group whose own entry puts it there.
		return errors.Join(w.purge(ctx, w.site.Work, t), w.purge(ctx, w.site.Nodes, t))
	}
	if err := w.putNode(ctx, t, row); err != nil {
		return fmt.Errorf("write the document of node %s: %w", t.node, err)
	}
	if err := w.syncWork(ctx, t, row, driveless); err != nil {
		return fmt.Errorf("write the work of node %s: %w", t.node, err)
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

// errNoDrive means that work cannot go out before its config drive.
var errNoDrive = errors.New("its config drive is not at the site")

// errRaced means that a key changed between the read and the write.
var errRaced = errors.New("somebody else wrote the key each time")

// put writes body under key if the key is still at rev, 0 for none. raced means
// that it was not.
func put(ctx context.Context, kv jetstream.KeyValue, key string, body []byte, rev uint64) (raced bool, err error) {
	if rev == 0 {
		_, err = kv.Create(ctx, key, body)
	} else {
		_, err = kv.Update(ctx, key, body, rev)
	}
	if isRace(err) {
		return true, nil
	}
	return false, err
}

func isRace(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
