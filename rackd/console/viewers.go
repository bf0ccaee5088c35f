package console

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// The bounds of viewers.
const (
	// MaxViewers bounds the viewers of a rackd, MaxViewersOfNode those of one node: OpenBMC has room for as many.
	MaxViewers       = 64
	MaxViewersOfNode = 4
	// longestID bounds the ids that viewers are given.
	longestID = 64
)

// viewers are those of graphical consoles, by node and id. Nothing of what they show is kept once it was taken.
type viewers struct {
	mu   sync.Mutex
	life context.Context // of Run, nil before
	of   map[string]map[string]*seat
	all  int
	open sync.WaitGroup // lines
}

// begin lets viewers come until ctx ends.
func (v *viewers) begin(ctx context.Context) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.life, v.of = ctx, map[string]map[string]*seat{}
}

// seat is the place of a viewer, which it has before its line is open.
type seat struct {
	tenancy string
	cancel  context.CancelFunc
	opened  chan struct{} // closed when v or err is there
	v       *viewer
	err     error
}

// viewer is the seat's, nil before its line is open.
func (s *seat) viewer() *viewer {
	select {
	case <-s.opened:
		return s.v
	default:
		return nil
	}
}

// graphical returns the node's graphical console; nil where it is none.
func (k *Keeper) graphical(n *node.Document) driver.Graphical {
	hw, err := k.cfg.Hardware.Resolve(n)
	if err != nil {
		return nil
	}
	g, _ := hw.Console().(driver.Graphical)
	return g
}

// OpenViewer answers ask.OpenViewer. The same question may be asked again.
func (k *Keeper) OpenViewer(ctx context.Context, id string, q ask.Viewer) error {
	if q.ID == "" || len(q.ID) > longestID {
		return fmt.Errorf("node %s: a viewer's id has 1 to %d characters: %w", id, longestID, driver.ErrInvalid)
	}
	if err := k.admits(id, q.Tenancy); err != nil {
		return err
	}
	s, ctxOfSeat, err := k.views.take(id, q.ID, q.Tenancy)
	if err != nil {
		return err
	}
	if ctxOfSeat != nil {
		k.views.open.Go(func() { k.sit(ctxOfSeat, id, q, s) })
	}
	select {
	case <-s.opened:
	case <-ctx.Done():
		return fmt.Errorf("node %s: its graphical console is still being opened: %w: %w", id, ctx.Err(), driver.ErrUnreachable)
	}
	if s.err != nil {
		return s.err
	}
	if s.v.tenancy != q.Tenancy {
		return fmt.Errorf("node %s: %w: %w", id, ErrChangedHands, driver.ErrFenced)
	}
	return nil
}

// admits returns why a caller of that tenancy may not view the node's console here, nil if it may.
func (k *Keeper) admits(id, tenancy string) error {
	n := k.cfg.Documents.Node(id)
	switch {
	case n == nil || !n.ConsoleEnabled:
		return fmt.Errorf("node %s: rackd %s has not heard that its console is enabled: %w", id, k.cfg.Name, driver.ErrUnreachable)
	case !k.cfg.Nodes.Owns(id):
		return fmt.Errorf("node %s: another rackd than %s has its console: %w", id, k.cfg.Name, driver.ErrUnreachable)
	case n.Tenancy != tenancy:
		return fmt.Errorf("node %s: %w: %w", id, ErrChangedHands, driver.ErrFenced)
	case k.graphical(n) == nil:
		return fmt.Errorf("node %s: its console interface %q shows no pictures: %w", id, n.Interface("console"), driver.ErrUnsupported)
	}
	return nil
}

// take gives a viewer a seat. ctx is not nil for a new one, whose taker opens the line: it ends with the seat.
func (v *viewers) take(node, id, tenancy string) (s *seat, ctx context.Context, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.of[node][id]; s != nil {
		return s, nil, nil
	}
	switch {
	case v.life == nil || v.life.Err() != nil:
		return nil, nil, fmt.Errorf("node %s: this rackd begins or stops: %w", node, driver.ErrUnreachable)
	case len(v.of[node]) >= MaxViewersOfNode:
		return nil, nil, fmt.Errorf("node %s: its graphical console has %d viewers, and no more may be: close one: %w", node, MaxViewersOfNode, driver.ErrInvalid)
	case tenancy != "" && v.ofTenancy(tenancy)+1 > MaxViewers-v.all:
		return nil, nil, fmt.Errorf("node %s: the viewers of its owner and lessee leave as many places of this rackd's %d to others, and get no more: close one: %w", node, MaxViewers, driver.ErrInvalid)
	case v.all >= MaxViewers:
		return nil, nil, fmt.Errorf("node %s: this rackd has %d viewers of graphical consoles, and no more may be: %w", node, MaxViewers, driver.ErrInvalid)
	}
	if v.of[node] == nil {
		v.of[node] = map[string]*seat{}
	}
	ctx, cancel := context.WithCancel(v.life)
	s = &seat{tenancy: tenancy, cancel: cancel, opened: make(chan struct{})}
	v.of[node][id] = s
	v.all++
	return s, ctx, nil
}

// ofTenancy counts the seats of a tenancy. mu is held.
func (v *viewers) ofTenancy(tenancy string) (n int) {
	for _, seats := range v.of {
		for _, s := range seats {
			if s.tenancy == tenancy {
				n++
			}
		}
	}
	return n
}

// leave gives a seat back.
func (v *viewers) leave(node, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of[node][id] == nil {
		return
	}
	delete(v.of[node], id)
	v.all--
	if len(v.of[node]) == 0 {
		delete(v.of, node)
	}
}

// seats are those of a node.
func (v *viewers) seats(node string) (list []*seat) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.of[node] {
		list = append(list, s)
	}
	return list
}

// nodes are those with viewers.
func (v *viewers) nodes() (list []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.of {
		list = append(list, id)
	}
	return list
}

// sit opens the line of a viewer and reads it, until ctx ends. Who has asked for it may be gone before.
func (k *Keeper) sit(ctx context.Context, id string, q ask.Viewer, s *seat) {
	defer s.cancel()
	defer k.views.leave(id, q.ID)
	line, sum, err := k.openViewer(driver.WithTry(ctx), id) // a person has asked for it
	if held, is := errors.AsType[driver.Withheld](err); !is || held.Tried() {
		k.cfg.Metrics.ConsoleOpened(resultOf(err))
	}
	if err != nil {
		k.cfg.Log.Info("a graphical console is not open", "node", id, "error", err)
		s.err = err
		close(s.opened)
		return
	}
	s.v = newViewer(q.Tenancy, sum, line, k.cfg.Metrics)
	close(s.opened)
	giveBack := func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		line.Close(closing)
	}
	defer context.AfterFunc(ctx, giveBack)() // Read does not know of ctx
	s.v.pump(ctx)
	giveBack()
	<-ctx.Done() // its asker takes what is left, and hears why it has ended
}

// openViewer opens the line of a viewer. sum is of what it was opened with.
func (k *Keeper) openViewer(ctx context.Context, id string) (line driver.Line, sum string, err error) {
	known := k.cfg.Documents.Node(id)
	n, hw, err := k.cfg.Nodes.Owned(id)
	switch {
	case err != nil:
		return nil, "", err
	case n == nil || known == nil:
		return nil, "", fmt.Errorf("node %s: another rackd owns it: %w", id, driver.ErrFenced)
	}
	g, can := hw.Console().(driver.Graphical)
	if !can {
		return nil, "", driver.Unsupported(n, "console", "console")
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	line, err = g.OpenViewer(ctx, fence{k, id}, n)
	return line, sumOf(known), err
}

// lookAtViewers ends those of a node that they may no longer see, and those without questions.
func (k *Keeper) lookAtViewers(id string) {
	seats := k.views.seats(id)
	if len(seats) == 0 {
		return
	}
	n, why := k.cfg.Documents.Node(id), ""
	switch {
	case n == nil || !n.ConsoleEnabled:
		why = "the console is no longer enabled"
	case !k.cfg.Nodes.Owns(id):
		why = "another rackd has the node now"
	}
	for _, s := range seats {
		because, v := why, s.viewer()
		switch {
		case because != "" || v == nil:
		case v.tenancy != n.Tenancy:
			because = ErrChangedHands.Error()
		case v.sum != sumOf(n):
			because = "the node's fields have changed"
		case v.silent():
			because = "no question about it has come"
		}
		if because == "" {
			continue
		}
		if v != nil {
			v.end(because)
		}
		s.cancel()
	}
}

// viewer returns an open viewer of a node.
func (k *Keeper) viewer(id string, q ask.Viewer) (*viewer, error) {
	if err := k.admits(id, q.Tenancy); err != nil {
		return nil, err
	}
	k.views.mu.Lock()
	s := k.views.of[id][q.ID]
	k.views.mu.Unlock()
	var v *viewer
	if s != nil {
		v = s.viewer()
	}
	if v == nil || v.tenancy != q.Tenancy {
		return nil, fmt.Errorf("node %s: rackd %s has no such viewer: another rackd had it, or no question about it came for %s: open the console again: %w", id, k.cfg.Name, ask.ViewerSilent, driver.ErrInvalid)
	}
	return v, nil
}

// ReadViewer answers ask.ReadViewer: what the BMC sent after a place, or nothing when ctx or the question's own time ends.
func (k *Keeper) ReadViewer(ctx context.Context, id string, q ask.ViewerRead) (ask.ViewerOutput, error) {
	v, err := k.viewer(id, q.Viewer)
	if err != nil {
		return ask.ViewerOutput{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(max(time.Duration(q.WaitMS)*time.Millisecond, 0), ask.ConsoleWait))
	defer cancel()
	out, ok := v.read(ctx, q.From)
	if !ok {
		return out, fmt.Errorf("node %s: what its graphical console showed at byte %d is not kept: open the console again: %w", id, q.From, driver.ErrInvalid)
	}
	return out, nil
}

// WriteViewer answers ask.WriteViewer. It returns once the BMC has taken what was sent.
func (k *Keeper) WriteViewer(ctx context.Context, id string, q ask.ViewerInput) error {
	if len(q.Data) > ask.ConsoleTyped {
		return fmt.Errorf("node %s: %d bytes were sent at once, and %d may be: %w", id, len(q.Data), ask.ConsoleTyped, driver.ErrInvalid)
	}
	v, err := k.viewer(id, q.Viewer)
	if err != nil {
		return err
	}
	if err := v.write(ctx, q); err != nil {
		return fmt.Errorf("node %s: send to its graphical console: %w", id, err)
	}
	return nil
}

// CloseViewer answers ask.CloseViewer. One that is not there is closed already.
func (k *Keeper) CloseViewer(id string, q ask.Viewer) {
	k.views.mu.Lock()
	s := k.views.of[id][q.ID]
	k.views.mu.Unlock()
	if s == nil {
		return
	}
	if v := s.viewer(); v == nil || v.tenancy == q.Tenancy {
		s.cancel()
	}
}
