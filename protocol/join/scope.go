package join

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ironyard/ironyard/protocol/permit"
)

// Role is what a member is.
type Role string

// The roles.
const (
	Hub   Role = "hub"   // a NATS server of the hub
	Bus   Role = "bus"   // a NATS server of a site
	Rackd Role = "rackd" // a conductor
)

// Scope is what a member is and may do.
type Scope struct {
	Role Role   `json:"role"`
	Site string `json:"site,omitempty"` // of a bus or rackd
	// Name is the member's, unique among those of its role. A rackd's may be left
	// open in a token; then the joiner chooses it.
	Name string `json:"name,omitempty"`
	// Group is a rackd's conductor group, FailoverOf are the groups that its group
	// stands in for.
	Group      string   `json:"group,omitempty"`
	FailoverOf []string `json:"failover_of,omitempty"`
	// Address is where others reach a server: a host name or an IP address, and a port
	// where it is not the usual one (ParseAddress).
	Address string `json:"address,omitempty"`
	// Peers are the addresses of all servers of a server's cluster, its own included,
	// those that are to come as well.
	Peers []string `json:"peers,omitempty"`
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// Check says what is wrong with a scope. named: the name must be there.
func (s Scope) Check(named bool) error {
	var errs []error
	switch s.Role {
	case Hub, Bus:
		for _, a := range append([]string{s.Address}, s.Peers...) {
			_, err := ParseAddress(a)
			errs = append(errs, err)
		}
		if s.Group != "" || len(s.FailoverOf) > 0 {
			errs = append(errs, fmt.Errorf("a server (%s) has no conductor group", s.Role))
		}
	case Rackd:
		errs = append(errs, permit.CheckGroup(s.Group))
		for _, g := range s.FailoverOf {
			errs = append(errs, permit.CheckGroup(g))
			if strings.EqualFold(g, s.Group) {
				errs = append(errs, fmt.Errorf("conductor group %q cannot be a failover of itself", g))
			}
		}
		if s.Address != "" || len(s.Peers) > 0 {
			errs = append(errs, errors.New("a rackd is not dialled over the bus: it has no address"))
		}
	default:
		return fmt.Errorf("role %.80q: want hub, bus or rackd", s.Role)
	}
	if s.Role == Hub {
		if s.Site != "" {
			errs = append(errs, errors.New("the hub belongs to no site"))
		}
	} else {
		errs = append(errs, permit.CheckSite(s.Site))
	}
	if s.Name != "" || named {
		errs = append(errs, permit.CheckName(s.Name))
	}
	return errors.Join(errs...)
}

// String says who that is, for people.
func (s Scope) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Role, s.Name)
	if s.Site != "" {
		fmt.Fprintf(&b, " of site %s", s.Site)
	}
	if s.Role == Rackd {
		fmt.Fprintf(&b, ", conductor group %q", s.Group)
		if len(s.FailoverOf) > 0 {
			fmt.Fprintf(&b, " standing in for %q", s.FailoverOf)
		}
	}
	return b.String()
}
