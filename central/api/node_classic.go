package api

import (
	"slices"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/classic"
	"github.com/ironyard/ironyard/central/store"
)

// modernise has a node with a driver of before Ironic's hardware types become one of today. Interfaces that the request names stay
// as they are named; of those that the old name says, the ones are taken that the node's rack offers. A driver that is neither here nor
// in Ironic any more is refused with the way that its machines have.
func (s *Server) modernise(n *store.Node, named func(kind string) bool) error {
	if speak := classic.Dropped(n.Driver); speak != "" {
		return wire.Invalid("Driver %s is not here, and Ironic has dropped it: %s. Choose driver redfish, and give redfish_address, redfish_username and redfish_password in driver_info.", n.Driver, speak)
	}
	became, old := classic.Driver(n.Driver)
	if !old {
		return nil
	}
	n.Driver = became.Driver
	m, served := s.dispatch.Roster.Owner(n.UUID, n.Driver, n.ConductorGroup)
	if !served {
		return nil // it is refused by its new name
	}
	for kind, name := range became.Interfaces {
		if !named(kind) && slices.Contains(m.Drivers[n.Driver][kind], name) {
			n.Interfaces[kind] = name
		}
	}
	return nil
}
