// Package sites knows which sites there are, which conductor groups each serves and
// which groups stand in for one another, and keeps the bus of each open, with its
// GROUPS as the configuration has them.
//
// It may import protocol and nats.go. A site may be away at any time, also when
// central starts: its bus is opened as soon as it answers, and what is to run on it
// runs from then on.
package sites

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Site is the configuration of a site.
type Site struct {
	// Name is the site's JetStream domain; empty when central is connected to the
	// site's own server.
	Name string
	// Groups are the conductor groups that the site serves. One site without
	// groups serves all that no other names.
	Groups []string
	// Settings of its buckets and stream.
	Settings bus.Settings
}

// Parse reads a site as it is written on a command line: NAME or NAME=GROUP,GROUP.
func Parse(text string) (Site, error) {
	name, groups, listed := strings.Cut(text, "=")
	if strings.ContainsAny(name, " .*>/\\\t") {
		return Site{}, fmt.Errorf("site %q: a site's name is a JetStream domain, without spaces, dots, * and >", text)
	}
	s := Site{Name: name}
	if listed {
		for g := range strings.SplitSeq(groups, ",") {
			s.Groups = append(s.Groups, strings.ToLower(strings.TrimSpace(g)))
		}
	}
	return s, nil
}

// Map says which site serves a group. It is immutable.
type Map struct {
	sites    []Site
	byGroup  map[string]string
	fallback string
	failover map[string][]string
}

// NewMap checks the sites and the groups' failovers; no site means one, named "",
// that serves every group.
func NewMap(sites []Site, failover ...Failover) (*Map, error) {
	if len(sites) == 0 {
		sites = []Site{{}}
	}
	m := &Map{sites: sites, byGroup: map[string]string{}, fallback: sites[0].Name}
	var names, open []string
	for _, s := range sites {
		if slices.Contains(names, s.Name) {
			return nil, fmt.Errorf("site %q is configured twice", s.Name)
		}
		names = append(names, s.Name)
		if len(s.Groups) == 0 {
			open = append(open, s.Name)
			m.fallback = s.Name
		}
		for _, g := range s.Groups {
			if other, taken := m.byGroup[strings.ToLower(g)]; taken {
				return nil, fmt.Errorf("conductor group %q is served by site %q and site %q", g, other, s.Name)
			}
			m.byGroup[strings.ToLower(g)] = s.Name
		}
	}
	if len(open) > 1 {
		return nil, fmt.Errorf("sites %q all serve every other group: give all but one a list of groups", open)
	}
	return m, m.addFailovers(failover)
}

// SiteOf returns the name of the site that serves a group. A group that nobody
// names goes to the site without groups, else to the first.
func (m *Map) SiteOf(group string) string {
	if s, ok := m.byGroup[strings.ToLower(group)]; ok {
		return s
	}
	return m.fallback
}

// Status of a site.
type Status struct {
	Name string
	Open bool
	// Err is why it is not open.
	Err error
}

// Set keeps the sites of a map open. Safe for concurrent use.
type Set struct {
	*Map
	conns map[string]*nats.Conn // by site
	log   *slog.Logger

	mu     sync.Mutex
	status map[string]Status
}

// NewSet returns a set that is closed until Run. connection returns the connection
// that reaches a site: one for all where the bus has one account, one each where
// every site has its own. The caller keeps the connections.
func NewSet(m *Map, connection func(site string) *nats.Conn, log *slog.Logger) *Set {
	s := &Set{Map: m, conns: map[string]*nats.Conn{}, log: log, status: map[string]Status{}}
	for _, site := range m.sites {
		s.conns[site.Name] = connection(site.Name)
		s.status[site.Name] = Status{Name: site.Name, Err: errors.New("not opened yet")}
	}
	return s
}

// Conn returns the connection that reaches a group's site.
func (s *Set) Conn(group string) (*nats.Conn, error) {
	site := s.SiteOf(group)
	conn := s.conns[site]
	if !conn.IsConnected() {
		return nil, fmt.Errorf("central is not connected to the bus of site %q: %v", site, conn.LastError())
	}
	return conn, nil
}

// Status returns how each site is, in the order of the configuration.
func (s *Set) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Status
	for _, site := range s.sites {
		list = append(list, s.status[site.Name])
	}
	return list
}

func (s *Set) set(name string, open bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status[name] = Status{name, open, err}
}

// How long opening a site may take, and how long to wait before the next attempt.
const (
	openTimeout = 10 * time.Second
	reopenAfter = time.Second
)

// Run opens every site and runs f on each until ctx ends. When f fails, or the site
// cannot be opened, it is opened again after a moment. f ends when its context does.
func (s *Set) Run(ctx context.Context, f func(ctx context.Context, site *bus.Site) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, site := range s.sites {
		g.Go(func() error {
			for ctx.Err() == nil {
				err := s.once(ctx, site, f)
				if ctx.Err() != nil {
					break
				}
				s.set(site.Name, false, err)
				s.log.Warn("site is not available, trying again", "site", site.Name, "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(reopenAfter):
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (s *Set) once(ctx context.Context, site Site, f func(context.Context, *bus.Site) error) error {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	b, err := bus.Open(opening, s.conns[site.Name], site.Name, site.Settings)
	if err == nil {
		err = writeGroups(opening, s.Map, b, s.log)
	}
	cancel()
	if err != nil {
		return err
	}
	ctx, cancel = context.WithCancel(ctx)
	var groups sync.WaitGroup
	groups.Go(func() { keepGroups(ctx, s.Map, b, s.log) })
	defer groups.Wait()
	defer cancel()
	s.set(site.Name, true, nil)
	s.log.Info("site is open", "site", site.Name)
	if err := f(ctx, b); err != nil {
		return err
	}
	return errors.New("its work ended without an error")
}
