// Package sites knows which sites there are, which conductor groups each serves and
// which groups stand in for one another, and keeps the bus of each open, with its
// GROUPS as the configuration has them.
//
// It may import protocol and nats.go. A site may be away at any time, also when
// central starts: its bus is opened as soon as it answers, and what is to run on it
// runs from then on. A site that falls silent is away within ten seconds; all that
// runs on it ends then, and begins anew when it answers again, so that nothing goes
// on with a subscription that the break has cost it.
package sites

import (
	"fmt"
	"slices"
	"strings"

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
