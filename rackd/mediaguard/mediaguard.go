// Package mediaguard is the periodic task that looks whether machines find the media that rackds serve to their instances. A BMC that has
// lost one is told of it again. Where the rackd has gone that served them, this one takes its place.
//
// It may import protocol, rackd/driver and rackd/periodic; it declares what else it needs.
// Invariants:
//   - It touches active nodes without work and out of maintenance, whose instances have such media.
//   - What others have put into a drive stays there. Power is never touched.
//   - The fence is asked before each write, by the driver.
package mediaguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/periodic"
)

// Name of the task.
const Name = "instance-media"

const (
	// Every is how often the task asks whether the rackd lives at which the machine finds its media. That costs no question to a BMC.
	Every = time.Minute
	// look is how often a BMC is asked what is in its drives.
	look = 15 * time.Minute
	// within bounds a look with its writes, and the files that have to be brought.
	within = 10 * time.Minute
	// again is how often a BMC that loses media each time is told of.
	again = 24 * time.Hour
)

// Nodes are this rackd's (rackd/conductor).
type Nodes interface {
	// Fence returns the fence of a write to an idle node's machine.
	Fence(n *node.Document) driver.Fence
	// TellLog reports lines about a node that has no work.
	TellLog(ctx context.Context, n *node.Document, o *hardware.Observation, lines []work.Line) error
}

// Media are served by this rackd and others (rackd/conductor/runner).
type Media interface {
	Base() string
	TLSBase() string
	Served(base, group string) bool
	TLSCertificates() ([]string, error)
	InstanceURL(base, group, node, work string, part driver.InstancePart) (string, error)
}

type guard struct {
	nodes  Nodes
	media  Media
	images driver.Images

	mu     sync.Mutex
	looked map[string]time.Time // by node: when its BMC was asked last
	told   map[string]time.Time
}

// Task guards the media of instances.
func Task(nodes Nodes, media Media, images driver.Images) periodic.Task {
	g := &guard{nodes: nodes, media: media, images: images, looked: map[string]time.Time{}, told: map[string]time.Time{}}
	return periodic.Task{Name: Name, Every: Every, Workers: 4, Wants: wants, Do: g.look, Gone: g.forget}
}

// forget forgets a node that has left the group.
func (g *guard) forget(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.looked, id)
	delete(g.told, id)
}

func wants(n *node.Document, hw *driver.Hardware) bool {
	_, keeps := hw.KeepsMedia(n)
	return keeps && !n.Maintenance
}

func (g *guard) look(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	m, keeps := hw.KeepsMedia(n)
	if !keeps || !g.due(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r := &record{}
	t := &driver.Task{Node: n, Hardware: hw, Fence: g.nodes.Fence(n), Media: server{nil, g.media, n}, Images: g.images, Record: r, Facts: map[string]string{}}
	err := m.KeepInstance(ctx, t)
	if errors.Is(err, driver.ErrFenced) {
		return nil // work has begun, or another rackd has the node: they know better
	}
	for i := range r.lines {
		r.lines[i].Detail = r.lines[i].Detail + ", because the machine did not find it any more"
	}
	if err != nil && len(r.lines) == 0 {
		r.lines = []work.Line{{Time: time.Now().UTC(), Phase: "virtual media", Detail: fmt.Sprintf("the media of the instance could not be looked after: %v", err)}}
	}
	g.tell(ctx, n, r)
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.looked[n.UUID] = time.Now()
	}
	return err
}

// due reports whether the node's media have to be looked after now.
func (g *guard) due(n *node.Document) bool {
	at := n.InstanceFiles[node.FileMediumAt]
	if at == "" || at != n.DriverString("external_http_url") && !g.media.Served(at, n.Group) {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(g.looked[n.UUID]) >= look
}

// tell writes lines of history, at most some in the time again, and what central is to keep.
func (g *guard) tell(ctx context.Context, n *node.Document, r *record) {
	g.mu.Lock()
	recent := time.Since(g.told[n.UUID]) < again
	g.mu.Unlock()
	if recent {
		r.lines = nil
	}
	if r.seen.Empty() && len(r.lines) == 0 {
		return
	}
	if g.nodes.TellLog(ctx, n, &r.seen, r.lines) != nil || len(r.lines) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told[n.UUID] = time.Now()
}

// server is the media of one node as its boot interface sees them.
type server struct {
	driver.Media // what is left is for flows alone
	m            Media
	n            *node.Document
}

func (s server) Base() string                       { return s.m.Base() }
func (s server) TLSBase() string                    { return s.m.TLSBase() }
func (s server) Served(base string) bool            { return s.m.Served(base, s.n.Group) }
func (s server) TLSCertificates() ([]string, error) { return s.m.TLSCertificates() }
func (s server) InstanceURL(base, work string, part driver.InstancePart) (string, error) {
	return s.m.InstanceURL(base, s.n.Group, s.n.UUID, work, part)
}

// record takes what a boot interface tells.
type record struct {
	driver.Recorder // what is left is for flows alone
	lines           []work.Line
	seen            hardware.Observation
}

func (r *record) Phase(name, detail string) {
	r.lines = append(r.lines, work.Line{Time: time.Now().UTC(), Phase: name, Detail: detail})
}
func (r *record) Observe(o hardware.Observation) { r.seen.Merge(o) }
