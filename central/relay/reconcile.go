package relay

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// repairs are the orders that looking at a site has given and that are not yet done.
type repairs struct {
	todo      []target
	listed    map[target]bool // those in todo
	failed    []target        // for the next look
	afterNode string          // where checkWorks goes on
	busy      bool            // it has found open work of the site since it began with the first
}

// add orders the repair of a target, once.
func (r *repairs) add(t target) {
	if !r.listed[t] {
		r.listed[t] = true
		r.todo = append(r.todo, t)
	}
}

// compareNodes orders the repair of nodes without a key and of keys without a node;
// every: of all nodes, whose documents may be older than they were. The keys are read
// first: a node that appears meanwhile is written once more, no harm done, and
// nothing is purged without another look at its row.
func (w *writer) compareNodes(ctx context.Context, every bool) error {
	keys := map[string]bool{} // those of a large site are many: their values are left where they are
	err := w.site.Read(ctx, w.site.Nodes, nil, func(e jetstream.KeyValueEntry) { keys[e.Key()] = true }, jetstream.MetaOnly())
	if err != nil {
		return err
	}
	for after, more := "", true; more; {
		page, err := w.Store.NodeKeys(ctx, after, pageSize)
		if err != nil {
			return err
		}
		for _, k := range page {
			after = k.UUID
			if w.SiteOf(k.Group) != w.site.Name {
				continue
			}
			t := target{k.UUID, bus.GroupToken(k.Group)}
			if !keys[t.key()] || every {
				w.add(t)
			}
			delete(keys, t.key())
		}
		more = len(page) == pageSize
	}
	for key := range keys {
		w.add(targetOf(key))
	}
	return nil
}

// compareWorks orders the repair of open works without their document, and of
// documents that no open work stands for; every: of all.
func (w *writer) compareWorks(ctx context.Context, every bool) error {
	keys, err := w.site.List(ctx, w.site.Work)
	if err != nil {
		return err
	}
	for after, more := "", true; more; {
		page, err := w.Store.OpenWorks(ctx, after, pageSize)
		if err != nil {
			return err
		}
		for _, row := range page {
			after = row.Node
			if w.SiteOf(row.Group) != w.site.Name {
				continue
			}
			t := target{row.Node, bus.GroupToken(row.Group)}
			if e := keys[t.key()]; every || e == nil || !w.standsFor(e, row.ID) {
				w.add(t)
			}
			delete(keys, t.key())
		}
		more = len(page) == pageSize
	}
	for key := range keys {
		w.add(targetOf(key))
	}
	return nil
}

// standsFor reports whether what a key holds is the document of a work.
func (w *writer) standsFor(e jetstream.KeyValueEntry, id string) bool {
	doc, err := bus.ReadWork(e.Key(), e.Value())
	if err != nil { // it is replaced
		w.site.Refuse(w.log, bus.WorkBucket, e.Key(), err)
	}
	return err == nil && doc.ID == id
}

// Rows that are read at once, and keys that are asked for at once.
const (
	pageSize  = 1000
	checkSize = 256
)

// checkWorks orders the repair of open works without a document: somebody deleted the
// key, or the site lost it together with what would have shown the loss. It looks at
// checkSize works, and at the next ones when it is called again, so that a crowd of
// deploys costs no more of the WAN.
func (w *writer) checkWorks(ctx context.Context) error {
	page, err := w.Store.OpenWorks(ctx, w.afterNode, checkSize)
	if err != nil {
		return err
	}
	w.busy = w.busy && w.afterNode != ""
	w.afterNode = ""
	if len(page) == checkSize {
		w.afterNode = page[checkSize-1].Node
	}
	var targets []target
	var names []string
	for _, row := range page {
		if w.SiteOf(row.Group) == w.site.Name {
			t := target{row.Node, bus.GroupToken(row.Group)}
			targets, names = append(targets, t), append(names, t.key())
		}
	}
	if len(targets) == 0 {
		w.quiet = w.afterNode == "" && !w.busy && len(w.todo) == 0
		return nil
	}
	w.busy = true
	there := map[string]bool{}
	err = w.site.Read(ctx, w.site.Work, names, func(e jetstream.KeyValueEntry) { there[e.Key()] = true }, jetstream.MetaOnly())
	if err != nil {
		return err
	}
	for _, t := range targets {
		if !there[t.key()] {
			w.add(t)
		}
	}
	return nil
}

// repair does a batch of the orders. Those that fail are done again after the next look.
func (w *writer) repair(ctx context.Context) error {
	targets := w.todo[:min(len(w.todo), batchSize)]
	if w.todo = w.todo[len(targets):]; len(w.todo) == 0 {
		w.todo, w.listed = nil, map[target]bool{}
	}
	var part []*order
	for _, t := range targets {
		delete(w.listed, t)
		part = append(part, &order{target: t, repair: true})
	}
	if err := w.sync(ctx, part); err != nil {
		w.failed = append(w.failed, targets...)
		return err
	}
	var first error // of many that may all be alike
	failed := len(w.failed)
	for _, o := range part {
		if o.err != nil {
			w.failed = append(w.failed, o.target)
			first = cmp.Or(first, o.err)
		}
	}
	failed = len(w.failed) - failed
	w.Metrics.Repaired.WithLabelValues(w.site.Name).Add(float64(len(part) - failed))
	w.log.Info("looked after nodes whose keys did not fit the database", "nodes", len(part)-failed, "left", len(w.todo))
	if failed > 0 {
		return fmt.Errorf("%d of %d nodes, the first: %w", failed, len(part), first)
	}
	return nil
}

func targetOf(key string) target {
	token, id, _ := strings.Cut(key, ".")
	return target{id, token}
}
