package api

import (
	"slices"

	"github.com/ironyard/ironyard/central/classic"
	"github.com/ironyard/ironyard/central/store"
)

// modernise has a node with a driver of before Ironic's hardware types become one of today. Interfaces that the request names stay
// as they are named; of those that the old name says, the ones are taken that the node's rack offers.
func (s *Server) modernise(n *store.Node, named func(kind string) bool) {
	became, old := classic.Driver(n.Driver)
	if !old {
		return
	}
	n.Driver = became.Driver
	m, served := s.dispatch.Roster.Owner(n.UUID, n.Driver, n.ConductorGroup)
	if !served {
		return // it is refused by its new name
	}
	for kind, name := range became.Interfaces {
		if !named(kind) && slices.Contains(m.Drivers[n.Driver][kind], name) {
			n.Interfaces[kind] = name
		}
	}
}
