package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// reconcile compares the site's keys with the rows and repairs what does not fit:
// a message that was lost, a site whose bus came back from an older copy. The keys
// are read first: a node that appears meanwhile is written once more, no harm done,
// and nothing is purged without another look at its row.
func (w *writer) reconcile(ctx context.Context) error {
	nodes, err := list(ctx, w.site.Nodes, jetstream.MetaOnly())
	if err != nil {
		return err
	}
	works, err := list(ctx, w.site.Work)
	if err != nil {
		return err
	}
	todo := map[target]error{}
	if err := w.compareNodes(ctx, nodes, todo); err != nil {
		return err
	}
	if err := w.compareWorks(ctx, works, todo); err != nil {
		return err
	}
	return w.repair(ctx, todo)
}

// compareNodes adds nodes without a key and keys without a node.
func (w *writer) compareNodes(ctx context.Context, keys map[string]jetstream.KeyValueEntry, todo map[target]error) error {
	after := ""
	for {
		page, err := w.Store.NodeKeys(ctx, after, 1000)
		if err != nil {
			return err
		}
		for _, k := range page {
			after = k.UUID
			if w.SiteOf(k.Group) != w.site.Name {
				continue
			}
			t := target{k.UUID, bus.GroupToken(k.Group)}
			if _, there := keys[t.key()]; !there {
				todo[t] = nil
			}
			delete(keys, t.key())
		}
		if len(page) < 1000 {
			break
		}
	}
	for key := range keys {
		todo[targetOf(key)] = nil
	}
	return nil
}

// compareWorks adds open works without their document, and documents that no open
// work stands for.
func (w *writer) compareWorks(ctx context.Context, keys map[string]jetstream.KeyValueEntry, todo map[target]error) error {
	after := ""
	for {
		page, err := w.Store.OpenWorks(ctx, after, 1000)
		if err != nil {
			return err
		}
		for _, row := range page {
			after = row.Node
			if w.SiteOf(row.Group) != w.site.Name {
				continue
			}
			t := target{row.Node, bus.GroupToken(row.Group)}
			var doc work.Document
			if e := keys[t.key()]; e == nil || json.Unmarshal(e.Value(), &doc) != nil || doc.ID != row.ID {
				todo[t] = nil
			}
			delete(keys, t.key())
		}
		if len(page) < 1000 {
			break
		}
	}
	for key := range keys {
		todo[targetOf(key)] = nil
	}
	return nil
}

func (w *writer) repair(ctx context.Context, todo map[target]error) error {
	var errs []error
	for len(todo) > 0 {
		part := map[target]error{}
		for t := range todo {
			part[t] = nil
			delete(todo, t)
			if len(part) == batchSize {
				break
			}
		}
		if err := w.sync(ctx, part, false); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if err := w.withoutDrives(ctx, part); err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, err := range part {
			errs = append(errs, err)
		}
		w.Metrics.Repaired.WithLabelValues(w.site.Name).Add(float64(len(part)))
		w.log.Info("reconciled nodes whose keys did not fit the database", "nodes", len(part))
	}
	return errors.Join(errs...)
}

// withoutDrives sends out the work among targets whose config drive is missing and
// no longer in the outbox: the site lost it. The rackd says so and fails the work,
// which is better than a node that waits for ever. Where the drive is still on its
// way its entries do the rest.
func (w *writer) withoutDrives(ctx context.Context, targets map[target]error) error {
	lost := map[target]error{}
	for t, err := range targets {
		if errors.Is(err, errNoDrive) {
			lost[t], targets[t] = nil, nil
		}
	}
	if len(lost) == 0 {
		return nil
	}
	waiting, err := w.Store.WaitingDrives(ctx, w.site.Name)
	if err != nil {
		return err
	}
	for t := range lost {
		if waiting[t.node] {
			delete(lost, t)
			continue
		}
		w.log.Error("the site lost a config drive; its work will fail", "node", t.node)
	}
	err = w.sync(ctx, lost, true)
	for t, failed := range lost {
		targets[t] = failed
	}
	return err
}

func targetOf(key string) target {
	token, id, _ := strings.Cut(key, ".")
	return target{id, token}
}

// list returns the living keys of a bucket.
func list(ctx context.Context, kv jetstream.KeyValue, opts ...jetstream.WatchOpt) (map[string]jetstream.KeyValueEntry, error) {
	watch, err := kv.WatchAll(ctx, append(opts, jetstream.IgnoreDeletes())...)
	if err != nil {
		return nil, fmt.Errorf("list bucket %s: %w", kv.Bucket(), err)
	}
	defer watch.Stop()
	keys := map[string]jetstream.KeyValueEntry{}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case e, open := <-watch.Updates():
			if !open {
				return nil, fmt.Errorf("list bucket %s: the watch ended", kv.Bucket())
			}
			if e == nil {
				return keys, nil
			}
			keys[e.Key()] = e
		}
	}
}
