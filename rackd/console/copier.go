package console

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Until when the copies are written of a rackd that stops, and how many at once.
const (
	lastWithin = 500 * time.Millisecond
	lastAtOnce = 8
)

// loadTries is how often a copy is looked for before a console is opened without.
const loadTries = 5

// When copies are compared with the nodes: of those that were written a while ago.
const (
	sweepEvery = time.Hour
	sweepAfter = 10 * time.Minute
)

// copyLogs writes copies of logs that have changed, until ctx ends. The one that is late the longest goes first.
func (k *Keeper) copyLogs(ctx context.Context) {
	pace := rate.NewLimiter(RackdCopyRate, RackdCopyRate)
	tick := time.NewTicker(copyTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, h := range k.dueCopies() {
			if ctx.Err() != nil {
				return
			}
			if !k.cfg.Nodes.Owns(h.id) {
				continue // leave writes the last copy
			}
			n, err := k.copyLog(ctx, h.record, false, true)
			if pace.WaitN(ctx, n) != nil {
				return
			}
			if err != nil {
				break // the bus has trouble: others would fail too
			}
		}
	}
}

// dueCopies returns the consoles whose copies are to be written.
func (k *Keeper) dueCopies() []*held {
	type late struct {
		h     *held
		since time.Time
	}
	var list []late
	now := time.Now()
	k.mu.Lock()
	for _, h := range k.held {
		if since, due := h.record.due(now, k.cfg.Copies.Key); due {
			list = append(list, late{h, since})
		}
	}
	k.mu.Unlock()
	slices.SortFunc(list, func(a, b late) int { return a.since.Compare(b.since) })
	due := make([]*held, len(list))
	for i, l := range list {
		due[i] = l.h
	}
	return due
}

// copyLog writes the copy of a log, or removes it where the log is empty or to be forgotten. Of an owner's node the copy is looked at
// again where another rackd has written it. It returns how many bytes were written, and an error that concerns other logs too.
func (k *Keeper) copyLog(ctx context.Context, r *record, forget, owner bool) (bytes int, err error) {
	r.copying.Lock()
	defer r.copying.Unlock()
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	c, at, revision := r.snapshot(k.cfg.Name)
	key, before := k.cfg.Copies.Key(at.Group), revision
	switch {
	case !forget && len(c.Text) > 0:
		revision, bytes, err = k.cfg.Copies.Save(ctx, at, c, revision)
	case revision != 0:
		err = k.cfg.Copies.Remove(ctx, at.Key(), revision)
		revision = 0
	default:
		return 0, nil
	}
	switch {
	case err == nil:
		k.cfg.Metrics.ConsoleCopied("ok", bytes)
		k.copyTrouble.Over(k.cfg.Log)
		if before == 0 && bytes > 0 {
			k.copyFull.Over(k.cfg.Log)
		}
		r.saved(c, revision, key, time.Now().Add(time.Duration(bytes)*time.Second/CopyRate))
		return bytes, nil
	case errors.Is(err, ErrNoCopies):
		r.pause(time.Now().Add(noCopiesFor))
		return 0, nil
	case errors.Is(err, ErrCopyChanged):
		k.cfg.Metrics.ConsoleCopied("conflict", 0)
		if !owner {
			return 0, nil
		}
		newer, revision, err := k.cfg.Copies.Load(ctx, at)
		if err == nil {
			r.adopt(newer, revision, key)
			return 0, nil
		}
	}
	k.cfg.Metrics.ConsoleCopied("failed", 0)
	if bus.Full(err) { // others have a copy there, which a new one replaces
		k.copyFull.Failed(k.cfg.Log, "the copy of a console's log, for which the site has no room,", err, "node", at.Node)
		r.pause(time.Now().Add(fullFor))
		return 0, nil
	}
	k.copyTrouble.Failed(k.cfg.Log, "the copy of a console's log", err, "node", at.Node)
	r.pause(time.Now().Add(copyAgain))
	return 0, err
}

// lastCopy writes the last copy of a log that this rackd no longer holds, or removes it.
func (k *Keeper) lastCopy(ctx context.Context, r *record, forget bool) {
	if k.cfg.Copies == nil {
		return
	}
	select {
	case k.lasts <- struct{}{}:
		defer func() { <-k.lasts }()
	case <-ctx.Done():
		return
	}
	r.mu.Lock()
	wanted := r.copied.loaded && (forget || r.late(k.cfg.Copies.Key(r.copied.at.Group)))
	r.mu.Unlock()
	if wanted {
		_, _ = k.copyLog(ctx, r, forget, false) // it was told of; the copy of before stays
	}
}

// lastCopies writes the copies of a rackd that stops.
func (k *Keeper) lastCopies(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWithin)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		k.copying.Go(func() { k.lastCopy(ctx, h.record, false) })
	}
	go func() {
		defer cancel()
		k.copying.Wait()
		close(k.copied)
	}()
}

// Copied is closed once a keeper that stops has written its last copies, or has given that up.
func (k *Keeper) Copied() <-chan struct{} { return k.copied }

// load looks for the copy of the log. It returns once that is known, was tried often enough, or ctx ends.
func (h *held) load(ctx context.Context) {
	if h.k.cfg.Copies == nil {
		h.record.adopt(nil, 0, "")
		return
	}
	for left := loadTries - 1; ; left-- {
		err := h.loadOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if left == 0 {
			h.k.cfg.Log.Warn("the copy of a console's log could not be read: its log begins empty", "node", h.id, "error", err)
			h.record.adopt(nil, 0, "")
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func (h *held) loadOnce(ctx context.Context) error {
	h.record.copying.Lock()
	defer h.record.copying.Unlock()
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	h.record.mu.Lock()
	at := h.record.copied.at
	h.record.mu.Unlock()
	c, revision, err := h.k.cfg.Copies.Load(ctx, at)
	if err != nil && !errors.Is(err, ErrNoCopies) {
		return err
	}
	h.record.adopt(c, revision, h.k.cfg.Copies.Key(at.Group))
	return nil
}

// loadAgain looks for a newer copy before the machine is heard: a rackd that lives may have written its last one a moment ago.
func (h *held) loadAgain(ctx context.Context) {
	h.record.mu.Lock()
	own := h.record.copied.own
	h.record.mu.Unlock()
	if own || h.k.cfg.Copies == nil {
		return
	}
	if err := h.loadOnce(ctx); err != nil {
		h.k.cfg.Log.Info("the copy of a console's log was not read again", "node", h.id, "error", err)
	}
}

// loadWithin is how long a question waits for the copy of a log.
const loadWithin = time.Second

// loaded waits until the copy of a log was looked for.
func (h *held) loaded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	for {
		is, news := h.record.isLoaded()
		if is {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("node %s: the copy of its console's log is being read: %w", h.id, driver.ErrUnreachable)
		}
	}
}

// sweepCopies compares the copies with the nodes, until ctx ends.
func (k *Keeper) sweepCopies(ctx context.Context) {
	for {
		t := time.NewTimer(sweepEvery/2 + rand.N(sweepEvery))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if err := k.sweep(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Log.Warn("the copies of consoles' logs were not compared with the nodes; they will be again", "error", err)
		}
	}
}

// sweep removes copies of nodes that have no console, or are not known at two sweeps in a row: what a site's bus has lost of nodes comes
// again. It has copies written again that were lost.
func (k *Keeper) sweep(ctx context.Context) error {
	written := map[string]uint64{}
	records := map[string]*record{}
	k.mu.Lock()
	for _, h := range k.held {
		h.record.mu.Lock()
		if c := h.record.copied; c.revision != 0 {
			key := c.at.Key()
			written[key], records[key] = c.revision, h.record
		}
		h.record.mu.Unlock()
	}
	k.mu.Unlock()
	list, err := k.cfg.Copies.List(ctx)
	if err != nil {
		if errors.Is(err, ErrNoCopies) {
			return nil
		}
		return err
	}
	known := map[string]bool{}
	for _, id := range k.cfg.Nodes.Nodes() {
		known[id] = true
	}
	before := k.unknown
	k.unknown = map[string]bool{}
	for _, c := range list {
		delete(written, c.Key)
		id := bus.NodeOfKey(c.Key)
		n := k.cfg.Documents.Node(id) // nil also of one that this rackd cannot read
		if !known[id] {
			k.unknown[c.Key] = true
		}
		gone := !known[id] && before[c.Key] || n != nil && (bus.NodeKey(n.Group, id) != c.Key || !n.ConsoleEnabled || k.graphical(n) != nil)
		if !gone || time.Since(c.Written) < sweepAfter {
			continue
		}
		removing, cancel := context.WithTimeout(ctx, copyTimeout)
		err := k.cfg.Copies.Remove(removing, c.Key, c.Revision)
		cancel()
		if err != nil && !errors.Is(err, ErrCopyChanged) {
			return err
		}
	}
	for key, revision := range written {
		records[key].lost(revision)
	}
	return nil
}
