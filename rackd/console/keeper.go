package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/trouble"
	"github.com/ironyard/ironyard/rackd/driver"
)

// check is how often the held consoles are looked at: whether they are still this rackd's.
const check = time.Second

// Keeper is safe for concurrent use.
type Keeper struct {
	cfg    Config
	nudged chan struct{}

	mu    sync.Mutex
	dirty map[string]bool
	all   bool
	// full: a console had no place. Whenever one is left, all nodes are looked at.
	full bool
	held map[string]*held
	// kept are the logs of nodes that this rackd owned a moment ago, by node: it may own them again.
	kept map[string]kept
	// leaving are the consoles that are held, or are being given back.
	leaving sync.WaitGroup

	// lasts has a place for each last copy that is written at once. copied is closed when those of the end are.
	lasts       chan struct{}
	copying     sync.WaitGroup
	copied      chan struct{}
	copyTrouble trouble.Spell
	// unknown are the copies whose node was not known at the last sweep. The sweeps alone use it.
	unknown  map[string]bool
	copyFull trouble.Spell // while the site has no room for new copies

	views viewers
}

// New returns a keeper that is idle until Run.
func New(c Config) *Keeper {
	if c.Again <= 0 {
		c.Again = time.Second
	}
	if c.AgainAtMost <= 0 {
		c.AgainAtMost = time.Minute
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{cfg: c, nudged: make(chan struct{}, 1), dirty: map[string]bool{}, held: map[string]*held{}, kept: map[string]kept{},
		lasts: make(chan struct{}, lastAtOnce), copied: make(chan struct{})}
}

// keepFor is how long the log of a console is kept whose node this rackd no longer owns.
const keepFor = 10 * time.Minute

// kept is such a log.
type kept struct {
	record *record
	since  time.Time
}

// NodeChanged tells that a node's documents changed. It does not block.
func (k *Keeper) NodeChanged(id string) {
	k.mu.Lock()
	k.dirty[id] = true
	h := k.held[id]
	k.mu.Unlock()
	if h != nil {
		h.hear()
	}
	k.nudge()
}

// RingChanged tells that nodes may have changed their owner. It does not block.
func (k *Keeper) RingChanged() {
	k.mu.Lock()
	k.all = true
	k.mu.Unlock()
	k.nudge()
}

func (k *Keeper) nudge() {
	select {
	case k.nudged <- struct{}{}:
	default:
	}
}

// Held counts the consoles that are held, and those of them that are open.
func (k *Keeper) Held() (all, open int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		if h.record.isOpen() {
			open++
		}
	}
	return len(k.held), open
}

// Run holds consoles until ctx ends, and returns when all were given back.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(check)
	defer tick.Stop()
	defer k.copying.Wait()
	defer k.leaving.Wait()
	k.views.begin(ctx)
	defer k.views.open.Wait()
	k.RingChanged()
	defer k.lastCopies(ctx)
	if k.cfg.Copies != nil {
		k.leaving.Go(func() { k.copyLogs(ctx) })
		k.leaving.Go(func() { k.sweepCopies(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.nudged:
		case <-tick.C:
			viewed := k.views.nodes()
			k.mu.Lock()
			for _, id := range viewed {
				k.dirty[id] = true
			}
			for id := range k.held {
				k.dirty[id] = true
			}
			for id, old := range k.kept {
				if time.Since(old.since) > keepFor {
					delete(k.kept, id)
				}
			}
			k.mu.Unlock()
		}
		for _, id := range k.changed() {
			k.look(ctx, id)
		}
	}
}

func (k *Keeper) changed() []string {
	k.mu.Lock()
	all := k.all
	k.all = false
	var nodes []string
	for id := range k.dirty {
		nodes = append(nodes, id)
	}
	clear(k.dirty)
	k.mu.Unlock()
	if all { // asked without the lock: documents tell of changes under theirs
		return append(nodes, k.cfg.Nodes.Nodes()...)
	}
	return nodes
}

// look begins or ends what is held of a node, or opens it again.
func (k *Keeper) look(ctx context.Context, id string) {
	k.lookAtViewers(id)
	k.mu.Lock()
	h := k.held[id]
	k.mu.Unlock()
	if h == nil && !k.cfg.Documents.ConsoleEnabled(id) {
		return
	}
	mine := k.cfg.Nodes.Owns(id)
	if h == nil && !mine {
		return
	}
	n := k.cfg.Documents.Node(id)
	wanted := mine && n != nil && n.ConsoleEnabled && k.graphical(n) == nil
	switch {
	case h == nil && !wanted:
	case h == nil:
		k.take(ctx, Place{n.Group, id}, n.Tenancy, sumOf(n))
	case !wanted:
		k.leave(ctx, id, h, n != nil && n.ConsoleEnabled && k.graphical(n) == nil)
	case !h.at(n.Group): // its copy lies elsewhere, and another key seals it
		k.leave(ctx, id, h, false)
		k.NodeChanged(id)
	default:
		h.record.become(n.Tenancy)
		if sum := sumOf(n); sum != h.sum {
			h.sum = sum
			h.reopen()
		}
	}
}

// take begins to hold a console.
func (k *Keeper) take(ctx context.Context, at Place, tenancy, sum string) {
	id := at.Node
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) >= MaxConsoles {
		k.full = true
		if k.held[id] == nil {
			k.cfg.Log.Warn("a console is not held: this rackd holds as many as it may", "node", id, "consoles", MaxConsoles)
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	h := &held{k: k, id: id, sum: sum, record: newRecord(tenancy, opening), cancel: cancel, again: make(chan struct{}, 1), news: make(chan struct{}, 1), typing: make(chan struct{}, 1)}
	if old, there := k.kept[id]; there {
		h.record = old.record
		h.record.become(tenancy)
		h.record.say(opening)
		delete(k.kept, id)
	}
	h.record.begin(at)
	k.held[id] = h
	k.leaving.Add(1)
	go func() {
		defer k.leaving.Done()
		defer cancel()
		h.run(ctx)
	}()
}

// opening is the state of a console before the first attempt to open it has ended.
const opening = "it is being opened"

// leave ends what is held of a node. keep: another rackd owns it now, and this one may again. Else its log ends, and the copy of it.
func (k *Keeper) leave(ctx context.Context, id string, h *held, keep bool) {
	k.mu.Lock()
	delete(k.held, id)
	k.all, k.full = k.all || k.full, false
	if keep && len(k.kept) < MaxConsoles {
		k.kept[id] = kept{h.record, time.Now()}
	}
	k.mu.Unlock()
	h.record.say("this rackd holds it no longer")
	h.cancel()
	k.copying.Go(func() {
		left, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftWithin)
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWithin, cancel) })() // a rackd that stops has no time for it
		k.lastCopy(left, h.record, !keep)
	})
}

// leftWithin bounds the last copy of a node that this rackd no longer owns: many may go at once.
const leftWithin = 30 * time.Second

// at reports whether the copy of the log lies where a node of that conductor group has it.
func (h *held) at(group string) bool {
	h.record.mu.Lock()
	defer h.record.mu.Unlock()
	return h.record.copied.at.Key() == Place{group, h.id}.Key()
}

// of returns what is held of a node, or says why nothing is.
func (k *Keeper) of(id string) (*held, error) {
	k.mu.Lock()
	h, full := k.held[id], len(k.held) >= MaxConsoles
	k.mu.Unlock()
	if h != nil {
		return h, nil
	}
	n := k.cfg.Documents.Node(id)
	switch {
	case n == nil || !n.ConsoleEnabled:
		// Central knows that it is, or else asks no more.
		return nil, fmt.Errorf("node %s: rackd %s has not heard that its console is enabled: %w", id, k.cfg.Name, driver.ErrUnreachable)
	case !k.cfg.Nodes.Owns(id):
		return nil, fmt.Errorf("node %s: another rackd than %s has its console: %w", id, k.cfg.Name, driver.ErrUnreachable)
	case full:
		return nil, fmt.Errorf("node %s: rackd %s holds %d consoles, which is all that it may: disable some: %w", id, k.cfg.Name, MaxConsoles, driver.ErrUnreachable)
	}
	return nil, fmt.Errorf("node %s: its console is being opened: %w", id, driver.ErrUnreachable)
}

// ErrChangedHands: the node is another tenant's than the asker was let in for.
var ErrChangedHands = errors.New("the node has changed hands")

// Read answers ask.ReadConsole: what the machine wrote after a place in its log, or nothing when ctx or the question's own
// time ends.
func (k *Keeper) Read(ctx context.Context, id string, q ask.ConsoleRead) (ask.ConsoleOutput, error) {
	if n := k.cfg.Documents.Node(id); n != nil && k.graphical(n) != nil {
		return ask.ConsoleOutput{State: ask.ConsoleOpen, Graphical: true}, k.admits(id, q.Tenancy)
	}
	h, err := k.of(id)
	if err == nil {
		err = h.loaded(ctx)
	}
	if err != nil {
		return ask.ConsoleOutput{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(max(time.Duration(q.WaitMS)*time.Millisecond, 0), ask.ConsoleWait))
	defer cancel()
	p, ok := h.record.read(ctx, q.Tenancy, place{q.Log, q.From, q.State}, ask.ConsolePiece)
	if !ok {
		return ask.ConsoleOutput{}, fmt.Errorf("node %s: %w: %w", id, ErrChangedHands, driver.ErrFenced)
	}
	return ask.ConsoleOutput{Log: p.log, Next: p.from, Data: p.data, Lost: p.lost, State: p.state}, nil
}

// Write answers ask.WriteConsole. It returns once the BMC has taken what was typed.
func (k *Keeper) Write(ctx context.Context, id string, q ask.ConsoleInput) error {
	if len(q.Data) > ask.ConsoleTyped {
		return fmt.Errorf("node %s: %d bytes were typed at once, and %d may be: %w", id, len(q.Data), ask.ConsoleTyped, driver.ErrInvalid)
	}
	if n := k.cfg.Documents.Node(id); n != nil && k.graphical(n) != nil {
		return fmt.Errorf("node %s: its console is a graphical one: what speaks RFB waits for the server's greeting: %w", id, driver.ErrInvalid)
	}
	h, err := k.of(id)
	if err != nil {
		return err
	}
	return h.write(ctx, q)
}
