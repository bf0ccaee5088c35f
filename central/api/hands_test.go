package api

import (
	"testing"

	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// givingRoster gives the node away when a rackd is looked for, which is the last before the rack is asked.
type givingRoster struct {
	dispatch.Roster
	give func()
}

func (g givingRoster) Owner(node, driver, group string) (bus.Member, bool) {
	g.give()
	return g.Roster.Owner(node, driver, group)
}

// The node changes hands between the transaction of a request and its question to the rack, which would do something to the machine.
func TestANodeThatChangesHandsBeforeItsRackIsAsked(t *testing.T) {
	b, asker := newOwned(t)
	given := false
	b.server.dispatch.Roster = givingRoster{b.server.dispatch.Roster, func() {
		if !given {
			given = true
			b.move(nodeID, provision.Manageable, provision.NoState, func(n *store.Node) { n.Owner = foreignProject })
		}
	}}
	a := b.as(ownerProject+" "+adminRoles, "PUT", "/v1/nodes/"+nodeID+"/management/inject_nmi", `{}`)
	if !given || a.StatusCode != 404 && a.StatusCode != 403 || asker.done > 0 {
		t.Errorf("the former owner's NMI: status %d, sent to the machine %d times: %s", a.StatusCode, asker.done, a.body)
	}
}
