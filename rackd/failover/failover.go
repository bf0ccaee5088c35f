// Package failover knows which conductor groups stand in for which, and which keys of theirs
// central hands out: central writes that to GROUPS, every rackd follows it.
//
// It may import protocol only. Invariant: a group without an entry in GROUPS has no
// failover; what was read stays when the bucket is lost, until central writes it anew.
package failover

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Groups is safe for concurrent use.
type Groups struct {
	site    *bus.Site
	own     string
	log     *slog.Logger
	changed func()

	mu     sync.RWMutex
	byName map[string]bus.Group // by group token
	synced chan struct{}
}

// New returns the groups as a rackd of group own sees them; changed is called, from
// Run's goroutine, after each change.
func New(site *bus.Site, own string, changed func(), log *slog.Logger) *Groups {
	return &Groups{site: site, own: strings.ToLower(own), log: log, changed: changed, byName: map[string]bus.Group{}, synced: make(chan struct{})}
}

// Run follows the bucket until ctx ends.
func (g *Groups) Run(ctx context.Context) error {
	return g.site.Follow(ctx, bus.GroupsBucket, ">", reader{g})
}

// Synced is closed once the bucket has been read.
func (g *Groups) Synced() <-chan struct{} { return g.synced }

// Of returns the groups that stand in for group, in order. The caller must not change them.
func (g *Groups) Of(group string) []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.byName[bus.GroupToken(group)].Failover
}

// Keys returns the ids of the generations of a group's key that central hands out, the one that it
// seals with first; empty where central does not say. The caller must not change them.
func (g *Groups) Keys(group string) []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.byName[bus.GroupToken(group)].Keys
}

// Served returns the groups whose nodes a rackd of this group may serve: its own,
// then those that it stands in for, in order of name.
func (g *Groups) Served() []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var others []string
	for _, other := range g.byName {
		name := strings.ToLower(other.Name)
		if name != g.own && slices.ContainsFunc(other.Failover, func(f string) bool { return strings.EqualFold(f, g.own) }) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return append([]string{g.own}, others...)
}

// Serves reports whether a rackd of group by may serve the nodes of group.
func (g *Groups) Serves(by, group string) bool {
	return strings.EqualFold(by, group) || slices.ContainsFunc(g.Of(group), func(f string) bool { return strings.EqualFold(f, by) })
}

// reader is what bus.Follow tells.
type reader struct{ *Groups }

// Begin is told before everything is read.
func (reader) Begin() {}

// Apply takes in one change.
func (r reader) Apply(e jetstream.KeyValueEntry) {
	r.mu.Lock()
	if e.Operation() != jetstream.KeyValuePut {
		delete(r.byName, e.Key())
	} else {
		if one, err := bus.ReadGroup(e.Key(), e.Value()); err == nil {
			r.byName[e.Key()] = one
		} else {
			r.site.Refuse(r.log, bus.GroupsBucket, e.Key(), err)
		}
	}
	r.mu.Unlock()
	select {
	case <-r.synced:
		r.changed()
	default: // still reading
	}
}

// Synced is told when the bucket has been read. What it lost stays.
func (r reader) Synced([]string) {
	select {
	case <-r.synced:
	default:
		close(r.synced)
	}
	r.changed()
}
