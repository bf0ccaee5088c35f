package powersync

import (
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Ironic lets two nodes name one BMC, and so does central: the second may be the first after a machine was enrolled once more. What is
// done to one of them is done to the machine of the other, so operators are told.

// sighting is a node that was read by a way to a BMC.
type sighting struct {
	node string
	at   time.Time
	// told is the other node that operators were told of.
	told string
}

// oldAfter is for how many reads a node counts that is not read any more: it was deleted, or another rackd reads it.
const oldAfter = 3

// sight warns where another node is read by the same fields of driver_info. Nodes of one rackd are seen; of other rackds' none is.
func (s *Sync) sight(n *node.Document, hw *driver.Hardware) {
	power := hw.Power()
	account, is := power.(driver.Accounted)
	if b, may := power.(driver.ByPorts); may && b.ByPorts() || !is || account.Account(n) == "" {
		return
	}
	way, now := n.Driver+" "+driver.WayToBMC(n), time.Now()
	old := func(p sighting) bool { return now.Sub(p.at) > oldAfter*s.cfg.Every }
	s.mu.Lock()
	first := s.ways[way]
	warn := false
	switch {
	case first.node == "" || first.node == n.UUID || old(first):
		if first.node != n.UUID {
			first = sighting{}
		}
		s.ways[way] = sighting{n.UUID, now, first.told}
	case first.told != n.UUID:
		warn, first.told = true, n.UUID
		s.ways[way] = first
	}
	if len(s.ways) > 2*s.swept+1024 {
		for way, p := range s.ways {
			if old(p) {
				delete(s.ways, way)
			}
		}
		s.swept = len(s.ways)
	}
	s.mu.Unlock()
	if warn {
		s.cfg.Log.Warn("two nodes name one BMC by the same fields of driver_info: what is done to one of them, such as a power off or a cleaning, is done to the machine of the other. "+
			"Correct driver_info of one, or delete it", "node", n.UUID, "other", first.node)
	}
}
