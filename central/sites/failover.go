package sites

import (
	"fmt"
	"slices"
	"strings"
)

// Failover is the configuration of a conductor group whose nodes other groups serve
// while none of its own rackds lives.
type Failover struct {
	Group string
	// To are those groups, in the order in which they are tried.
	To []string
}

// ParseFailover reads a failover as it is written on a command line:
// GROUP=GROUP,GROUP. The group without a name is written as nothing: "=rack-b".
func ParseFailover(text string) (Failover, error) {
	group, list, found := strings.Cut(text, "=")
	f := Failover{Group: lower(group)}
	if !found {
		return f, fmt.Errorf("--failover %q: write GROUP=GROUP,GROUP. Rackds of the other groups serve the nodes of the first group, in order", text)
	}
	for g := range strings.SplitSeq(list, ",") {
		f.To = append(f.To, lower(g))
	}
	return f, nil
}

func lower(group string) string { return strings.ToLower(strings.TrimSpace(group)) }

// addFailovers checks failovers against the sites: a bus reaches no further than its
// site, so only rackds of the same site can take over.
func (m *Map) addFailovers(list []Failover) error {
	m.failover = map[string][]string{}
	for _, f := range list {
		group := lower(f.Group)
		if _, twice := m.failover[group]; twice {
			return fmt.Errorf("failover of conductor group %q is configured twice: write one list with all groups", group)
		}
		var to []string
		for _, g := range f.To {
			g = lower(g)
			switch site, other := m.SiteOf(group), m.SiteOf(g); {
			case g == group:
				return fmt.Errorf("failover of conductor group %q names the group itself", group)
			case slices.Contains(to, g):
				return fmt.Errorf("failover of conductor group %q names %q twice", group, g)
			case site != other:
				return fmt.Errorf("failover of conductor group %q names %q, which site %q serves, and not site %q like the group itself: "+
					"its rackds could not reach the nodes", group, g, other, site)
			}
			to = append(to, g)
		}
		m.failover[group] = to
	}
	return nil
}

// Failover returns the groups whose rackds serve a group's nodes while none of its
// own lives, in order. The caller must not change it.
func (m *Map) Failover(group string) []string { return m.failover[strings.ToLower(group)] }
