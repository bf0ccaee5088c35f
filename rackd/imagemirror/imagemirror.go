// Package imagemirror keeps copies of the images that the other rackds of the group
// deploy from, and of the kernels and ramdisks that their nodes name. If one of those
// rackds dies, its agents continue their downloads here. The rackd that inherits its
// work has the image, also while the WAN is cut.
//
// It may import protocol, rackd/driver and rackd/view; it declares what else it
// needs. Invariants: an image is copied inside the rack, from the cache of the rackd
// that works with it; it acts on what the view says now, a nudge has no payload but
// where to look; one copy is made at a time.
package imagemirror

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// again is how often everything is looked at anew: copies that failed are tried, and
// those that are still needed are marked as used, so that the cache keeps them.
const again = time.Minute

// Documents are the group's (rackd/view).
type Documents interface {
	Work(node string) *view.Work
	Nodes() []string
}

// Config of a mirror.
type Config struct {
	Name      string // this rackd's
	Documents Documents
	// Neighbours are the live rackds whose work this one may inherit, without itself.
	Neighbours func() []bus.Member
	// Copy gets the image called id from another rackd's boot web, unless it is here,
	// and marks it as used.
	Copy func(ctx context.Context, id string, from bus.Member) error
	Log  *slog.Logger
}

// Mirror is safe for concurrent use.
type Mirror struct {
	cfg    Config
	nudged chan struct{}

	mu    sync.Mutex
	dirty map[string]bool
	done  map[string]string // node → images copied for its work
}

// New returns a mirror that is idle until Run.
func New(c Config) *Mirror {
	return &Mirror{cfg: c, nudged: make(chan struct{}, 1), dirty: map[string]bool{}, done: map[string]string{}}
}

// NodeChanged tells that a node's documents changed. It does not block.
func (m *Mirror) NodeChanged(node string) {
	m.mu.Lock()
	m.dirty[node] = true
	m.mu.Unlock()
	select {
	case m.nudged <- struct{}{}:
	default:
	}
}

// Run copies until ctx ends.
func (m *Mirror) Run(ctx context.Context) error {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		var nodes []string
		select {
		case <-ctx.Done():
			return nil
		case <-m.nudged:
			nodes = m.changed()
		case <-tick.C:
			m.mu.Lock()
			clear(m.done)
			m.mu.Unlock()
			nodes = m.cfg.Documents.Nodes()
		}
		for _, node := range nodes {
			if ctx.Err() != nil {
				return nil
			}
			m.look(ctx, node)
		}
	}
}

func (m *Mirror) changed() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := make([]string, 0, len(m.dirty))
	for node := range m.dirty {
		nodes = append(nodes, node)
	}
	clear(m.dirty)
	return nodes
}

// look copies the image of a node's work if another rackd runs it.
func (m *Mirror) look(ctx context.Context, node string) {
	images, owner := m.wanted(node)
	all := strings.Join(images, " ")
	m.mu.Lock()
	same := m.done[node] == all
	if all == "" {
		delete(m.done, node)
	}
	m.mu.Unlock()
	if all == "" || same {
		return
	}
	var from bus.Member
	for _, n := range m.cfg.Neighbours() {
		if n.Name == owner {
			from = n
		}
	}
	if from.BootURL == "" {
		return // it has gone, or is of another group; its successor's change nudges again
	}
	for _, image := range images {
		if err := m.cfg.Copy(ctx, image, from); err != nil {
			if ctx.Err() == nil {
				m.cfg.Log.Warn("image of a neighbour's work not copied, trying again", "image", image, "rackd", owner, "node", node, "in", again, "error", err)
			}
			return
		}
	}
	m.mu.Lock()
	m.done[node] = all
	m.mu.Unlock()
}

// wanted returns the images of the node's work in flight, and who has them.
func (m *Mirror) wanted(node string) (images []string, owner string) {
	w := m.cfg.Documents.Work(node)
	if w == nil || !w.Doc.Open() || w.Doc.Owner == m.cfg.Name {
		return nil, ""
	}
	for _, fact := range []string{driver.FactImage, driver.FactKernel, driver.FactRamdisk} {
		if id := w.Doc.Checkpoint.Facts[fact]; id != "" {
			images = append(images, id)
		}
	}
	return images, w.Doc.Owner
}
