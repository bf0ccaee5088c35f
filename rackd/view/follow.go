package view

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Synced is closed once all that was on the bus of the groups known at the start is
// in the view.
func (v *View) Synced() <-chan struct{} { return v.synced }

// Regroup says that the groups to follow may have changed.
func (v *View) Regroup() {
	select {
	case v.regroup <- struct{}{}:
	default:
	}
}

// Run follows the buckets until ctx ends. The groups that this rackd stands in for
// are held in memory like its own, so that it can serve them at once.
func (v *View) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	select {
	case <-v.groups.Synced():
	case <-ctx.Done():
		return nil
	}
	followed := map[string]context.CancelFunc{}
	first := &countdown{done: v.synced}
	for {
		served := map[string]bool{}
		for _, group := range v.groups.Served() {
			served[group] = true
			if followed[group] == nil {
				followed[group] = v.follow(ctx, g, group, first)
			}
		}
		for group, stop := range followed {
			if !served[group] {
				stop()
				delete(followed, group)
				v.forget(group)
			}
		}
		first.seal()
		select {
		case <-ctx.Done():
			return g.Wait()
		case <-v.regroup:
		}
	}
}

// follow follows one group's documents until stop.
func (v *View) follow(ctx context.Context, g *errgroup.Group, group string, first *countdown) (stop context.CancelFunc) {
	ctx, stop = context.WithCancel(ctx)
	filter := bus.GroupToken(group) + ".>"
	v.mu.Lock()
	v.checked[group] = time.Now()
	v.mu.Unlock()
	nodes := reader{v: v, begin: func() { v.rereadNodes(group) }, apply: v.applyNode, lost: func(string) {}, first: first.add()}
	works := checker{group, reader{v: v, begin: func() { v.reread(group) }, apply: v.applyWork, lost: v.missed, first: first.add()}}
	g.Go(func() error {
		for ctx.Err() == nil {
			again, over := v.untilProven(ctx, group)
			err := v.site.Follow(again, bus.NodesBucket, filter, nodes)
			if over(); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error { return v.site.Follow(ctx, bus.WorkBucket, filter, works) })
	return stop
}

// untilProven returns a context that ends when the keys have been replaced and documents of the group's
// nodes had been refused: central may have sealed with a key before this rackd had it. All are to be read
// again then. Works that belong to such a document would wait for it for ever.
func (v *View) untilProven(ctx context.Context, group string) (context.Context, context.CancelFunc) {
	ctx, over := context.WithCancel(ctx)
	replaced := v.keys.Replaced()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-replaced:
			}
			replaced = v.keys.Replaced()
			v.mu.RLock()
			refused := v.refused[bus.GroupToken(group)]
			v.mu.RUnlock()
			if refused {
				over()
			}
		}
	}()
	return ctx, over
}

// rereadNodes prepares for all documents of a group's nodes to come again.
func (v *View) rereadNodes(group string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.refused, bus.GroupToken(group))
}

// InStep returns nil while WORK has certainly lost nothing for longer than bus.Unchecked
// without this rackd knowing. Otherwise it must not trust what it holds.
func (v *View) InStep() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for group, at := range v.checked {
		if age := time.Since(at); age > bus.Unchecked {
			return fmt.Errorf("the bus has not answered for %s how the work of conductor group %q is", age.Round(time.Second), group)
		}
	}
	return nil
}

// noteChecked takes in that WORK had lost nothing of a group until then.
func (v *View) noteChecked(group string, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, followed := v.checked[group]; followed {
		v.checked[group] = at
	}
}

// forget drops what is held of a group that this rackd no longer stands in for.
func (v *View) forget(group string) {
	v.mu.Lock()
	delete(v.checked, group)
	delete(v.refused, bus.GroupToken(group))
	v.deleted.forget(bus.GroupToken(group))
	var gone []string
	for id, n := range v.nodes {
		if bus.GroupToken(n.kind.group) == bus.GroupToken(group) {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		v.dropNode(id)
	}
	for key := range v.works {
		if bus.GroupOfKey(key) == bus.GroupToken(group) {
			v.dropWork(key)
			gone = append(gone, bus.NodeOfKey(key))
		}
	}
	v.mu.Unlock()
	for _, id := range gone {
		v.changed(id)
	}
}

// reader is what bus.Follow tells of one bucket and group.
type reader struct {
	v     *View
	begin func()
	apply func(jetstream.KeyValueEntry)
	lost  func(key string)
	first func() // to be called once the bucket has been read; not only once
}

// Begin implements bus.Reader.
func (r reader) Begin() { r.begin() }

// Apply implements bus.Reader.
func (r reader) Apply(e jetstream.KeyValueEntry) {
	r.apply(e)
	r.v.changed(bus.NodeOfKey(e.Key()))
}

// Synced implements bus.Reader.
func (r reader) Synced(missing []string) {
	for _, key := range missing {
		r.lost(key)
		r.v.changed(bus.NodeOfKey(key))
	}
	r.first()
}

// checker is the reader of one group's work.
type checker struct {
	group string
	reader
}

// Checked implements bus.Checker.
func (c checker) Checked(at time.Time) {
	c.v.noteChecked(c.group, at)
	c.v.tellLiars(c.group)
}

// countdown closes done once all that was added before seal has been called.
type countdown struct {
	mu     sync.Mutex
	left   int
	sealed bool
	done   chan struct{}
}

func (c *countdown) add() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return func() {}
	}
	c.left++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.left--
		c.check()
	})
}

func (c *countdown) seal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sealed {
		c.sealed = true
		c.check()
	}
}

func (c *countdown) check() {
	if c.sealed && c.left == 0 {
		close(c.done)
	}
}
