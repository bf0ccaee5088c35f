// Package roster knows the rackds that live, from the ALIVE buckets of all sites,
// and which of them serves a node.
//
// It may import protocol and nats.go. While a site is away its members stay as they
// were last seen: the rack works on without central. The ring is protocol/ring, as
// in the racks, so both sides name the same owner.
//
// ALIVE is written every second by each rackd, so it is not followed across the WAN.
// It is read as a whole when a site is opened; then beats (protocol/bus) say what is
// worth another look: one from a rackd that is not known, or the lack of them.
package roster

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/ring"
	"github.com/ironyard/ironyard/protocol/trouble"
)

// Config of a roster. All of it may be nil but Log.
type Config struct {
	Log *slog.Logger
	// Alive is told how many members a site has.
	Alive func(site string, members int)
	// Failover returns the groups that stand in for a group, in order.
	Failover func(group string) []string
	// Sealing returns the id of the key that a group's node documents are sealed with; empty: that of any.
	Sealing func(group string) string
	// SiteOf returns the site that serves a group; nil: one site "" serves all.
	SiteOf func(group string) string
	// Heard is told of each sign of life of a site.
	Heard func(site string)
}

// Roster is safe for concurrent use.
type Roster struct {
	cfg     Config
	mu      sync.RWMutex
	sites   map[string]map[string]bus.Member // site → key → member
	ring    *ring.Ring
	byName  map[string]bus.Member // one of each name
	byKey   map[string]bus.Member
	changed chan struct{}        // closed at the next change
	ignored map[string]time.Time // keys that are not taken in, by when that was told
}

// New returns an empty roster.
func New(c Config) *Roster {
	if c.Alive == nil {
		c.Alive = func(string, int) {}
	}
	if c.Failover == nil {
		c.Failover = func(string) []string { return nil }
	}
	if c.Sealing == nil {
		c.Sealing = func(string) string { return "" }
	}
	if c.SiteOf == nil {
		c.SiteOf = func(string) string { return "" }
	}
	if c.Heard == nil {
		c.Heard = func(string) {}
	}
	return &Roster{cfg: c, sites: map[string]map[string]bus.Member{}, ring: ring.New(nil), ignored: map[string]time.Time{},
		changed: make(chan struct{})}
}

// read reads a member; one that is not this site's to serve is none: central would
// look for it elsewhere.
func (r *Roster) read(from *bus.Site, e jetstream.KeyValueEntry) (m bus.Member, alive bool) {
	if e.Operation() != jetstream.KeyValuePut {
		return m, false
	}
	m, err := bus.ReadMember(e.Key(), e.Value())
	if err != nil {
		from.Refuse(r.cfg.Log, bus.AliveBucket, e.Key(), err)
		return m, false
	}
	site := from.Name
	if serves := r.cfg.SiteOf(m.Group); serves != site {
		if r.tells(e.Key()) { // each of its beats has the key read
			r.cfg.Log.Error("rackd ignored: its group belongs to another site; look at --site", "rackd", m.Name, "group", m.Group,
				"site", site, "group_of_site", serves)
		}
		return m, false
	}
	if m.Documents < node.Format {
		r.cfg.Log.Error("rackd cannot read the node documents that central writes, so it gets no new work, and others of its group serve its nodes: upgrade it", "rackd", m.Name,
			"group", m.Group, "site", site, "version", m.Version, "reads_up_to", m.Documents, "written", node.Format)
	}
	return m, true
}

// tells reports whether the log is to tell that a key is ignored: once each trouble.Remind.
func (r *Roster) tells(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.ignored, func(_ string, at time.Time) bool { return now.Sub(at) >= trouble.Remind })
	if _, told := r.ignored[key]; told {
		return false
	}
	r.ignored[key] = now
	return true
}

func (r *Roster) replace(site string, members map[string]bus.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sites[site] = members
	r.rebuild(site)
}

// apply takes in what a look at a member's key has shown. A renewal alone builds no
// new ring.
func (r *Roster) apply(site, key string, m bus.Member, alive bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	members := r.sites[site]
	old, known := members[key]
	switch {
	case !alive && !known:
		return
	case !alive:
		r.cfg.Log.Warn("rackd is gone", "rackd", old.Name, "group", old.Group, "site", site)
		delete(members, key)
	default:
		members[key] = m
		if known && old.Instance == m.Instance && old.Group == m.Group && slices.Equal(drivers(old), drivers(m)) && bus.SameKeys(old.Keys, m.Keys) {
			r.renew(key, m)
			return
		}
		r.cfg.Log.Info("rackd is alive", "rackd", m.Name, "group", m.Group, "site", site, "version", m.Version)
	}
	r.rebuild(site)
}

func drivers(m bus.Member) []string { return slices.Sorted(maps.Keys(m.Drivers)) }

// renew takes in a renewal, with the lock held.
func (r *Roster) renew(key string, m bus.Member) {
	r.byKey[key] = m
	if other := r.byName[m.Name]; bus.MemberKey(other.Group, other.Name) == key {
		r.byName[m.Name] = m
	}
}

// rebuild is called with the lock held.
func (r *Roster) rebuild(site string) {
	r.byName, r.byKey = map[string]bus.Member{}, map[string]bus.Member{}
	var members []ring.Member
	for _, list := range r.sites {
		for key, m := range list {
			r.byKey[key] = m
			if other, taken := r.byName[m.Name]; !taken || key < bus.MemberKey(other.Group, other.Name) {
				r.byName[m.Name] = m
			}
			members = append(members, ring.Member{Name: m.Name, Group: m.Group, Drivers: drivers(m), Documents: m.Documents, Keys: m.Keys})
		}
	}
	r.ring = ring.New(members)
	r.cfg.Alive(site, len(r.sites[site]))
	close(r.changed)
	r.changed = make(chan struct{})
}

// Read reports whether the members of a site have been read since this process began:
// before that nobody can say that there are none.
func (r *Roster) Read(site string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.sites[site] != nil
}

// Owner returns the rackd that serves a node, of its group or, while none of that
// lives, of a group that stands in; ok is false when none that lives can. One that does not
// read the documents that central writes cannot, and neither can one that lacks the key that they are
// sealed with.
func (r *Roster) Owner(uuid, driver, group string) (m bus.Member, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	owner, ok := r.ring.OwnerOf(r.need(group), uuid, driver, group, r.cfg.Failover(group)...)
	if !ok {
		return bus.Member{}, false
	}
	return r.byKey[bus.MemberKey(owner.Group, owner.Name)], true
}

// need is what a rackd needs so that it can serve a group's nodes.
func (r *Roster) need(group string) ring.Need {
	return ring.Need{Form: node.Format, Key: r.cfg.Sealing(group)}
}

// Outdated returns the live rackds that would serve a node, of its group or of those that stand
// in, if they read the documents that central writes. They have to be upgraded.
func (r *Roster) Outdated(driver, group string) []bus.Member {
	return r.without(driver, group, func(m bus.Member) bool { return m.Documents < node.Format })
}

// Late returns the live rackds that would serve a node if they had the key that its document is sealed
// with. They have to renew.
func (r *Roster) Late(driver, group string) []bus.Member {
	key := r.cfg.Sealing(group)
	return r.without(driver, group, func(m bus.Member) bool {
		ids, said := m.Keys[strings.ToLower(group)]
		return key != "" && said && !slices.Contains(ids, key)
	})
}

// without returns those of the live rackds that may serve a group's nodes of a hardware type that lack
// something.
func (r *Roster) without(driver, group string, lacks func(bus.Member) bool) (list []bus.Member) {
	groups := append([]string{group}, r.cfg.Failover(group)...)
	for _, m := range r.Conductors() {
		serves := slices.ContainsFunc(groups, func(g string) bool { return strings.EqualFold(g, m.Group) })
		if _, enables := m.Drivers[driver]; serves && enables && lacks(m) {
			list = append(list, m)
		}
	}
	return list
}

// Conductors returns all live rackds in order of name.
func (r *Roster) Conductors() []bus.Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.byName), func(a, b bus.Member) int { return cmp.Compare(a.Name, b.Name) })
}

// Drivers returns, for each hardware type that a live rackd enables, the names of
// those rackds in order.
func (r *Roster) Drivers() map[string][]string {
	out := map[string][]string{}
	for _, m := range r.Conductors() {
		for d := range m.Drivers {
			out[d] = append(out[d], m.Name)
		}
	}
	return out
}

// WaitFor returns when enough holds of the live rackds, or with ctx's error.
func (r *Roster) WaitFor(ctx context.Context, enough func([]bus.Member) bool) error {
	for {
		r.mu.RLock()
		changed := r.changed
		r.mu.RUnlock()
		if enough(r.Conductors()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
