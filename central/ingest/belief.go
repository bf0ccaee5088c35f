package ingest

import (
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// refusal is an event that was not believed, and why.
type refusal struct {
	event *work.Event
	why   error
}

// disbelieve says why an event of a site's stream is not believed about a node; nil: it
// is. The event's group is that of its subject (bus.ReadEvent), below which permissions let
// publish only rackds that serve the group. Those that stand in for the group of a node
// publish below the node's group too.
//
// A node changes its group only while it has no work. What its former rackd saw of it just
// before, and which comes late, is dropped as well: the new one looks by itself.
func (g *Ingest) disbelieve(n *store.Node, site string, e *work.Event) error {
	if bus.GroupToken(e.Group) != bus.GroupToken(n.ConductorGroup) {
		return fmt.Errorf("%w: the node is of conductor group %q (unless it was of group %q a moment ago)", bus.ErrLie, n.ConductorGroup, e.Group)
	}
	if g.cfg.SiteOf != nil {
		if serves := g.cfg.SiteOf(n.ConductorGroup); serves != site {
			return fmt.Errorf("%w: it lies in the stream of site %q, and site %q serves conductor group %q; if that was configured otherwise before, look at --site",
				bus.ErrLie, site, serves, n.ConductorGroup)
		}
	}
	if e.Work == "" {
		return overreach(e)
	}
	return nil
}

// overreach says what an event asks for that only an event of open work may; nil: nothing.
// Without work a rackd tells of power and its fault, and of hardware.
func overreach(e *work.Event) error {
	switch {
	case e.ClearInstance:
		return fmt.Errorf("%w: it clears the instance and names no work", bus.ErrLie)
	case len(e.Secrets) > 0:
		return fmt.Errorf("%w: it replaces secrets of driver_info and names no work", bus.ErrLie)
	case len(e.Properties) > 0 || len(e.Internal) > 0 || e.Inventory != nil:
		return fmt.Errorf("%w: it changes the node's properties and names no work", bus.ErrLie)
	case (e.Fault != "" || e.SetMaintenance) && e.Fault != node.PowerFailure, e.Cleared != "" && e.Cleared != node.PowerFailure:
		return fmt.Errorf("%w: it tells of fault %.40q, cleared %.40q, and names no work", bus.ErrLie, e.Fault, e.Cleared)
	}
	return nil
}

// refuse counts and tells that an event was dropped.
func (g *Ingest) refuse(from *bus.Site, subject string, why error) {
	reason := unreadable
	if errors.Is(why, bus.ErrLie) {
		reason = lying
	}
	g.cfg.Metrics.EventsDropped.WithLabelValues(from.Name, string(reason)).Inc()
	from.Refuse(g.cfg.Log, bus.EventsStream, subject, why)
}
