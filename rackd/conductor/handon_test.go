package conductor

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A rackd may hand on what concerns the groups that it serves. The group is that of
// the subject, which its credentials bind; one that names another group's node there
// learns nothing.
func TestWhatIsHandedOnIsOfTheSubjectsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		lookup, _ := json.Marshal(ask.Lookup{Node: nodeA, Caller: lookupOf(c).Caller})
		other, _ := json.Marshal(ask.Lookup{Node: "another", Caller: lookupOf(c).Caller})
		sign, _ := json.Marshal(ask.Sign{Address: "52:54:00:00:00:01", Phase: "dhcp"})
		for _, q := range []ask.Request{
			{Method: ask.AgentLookup, Node: nodeA, Group: "rack-b", Args: lookup},
			{Method: ask.AgentLookup, Group: "", Args: lookup},
			{Method: ask.AgentHeartbeat, Node: nodeA, Group: "rack-b", Args: []byte(`{}`)},
			{Method: ask.MachineSeen, Group: "rack-b", Args: sign},
		} {
			if r := answersOf(c).Answer(t.Context(), q); r.Error == nil || r.Error.Status != http.StatusNotFound {
				t.Errorf("%s of group %q about node %q: %s, %v, want 404", q.Method, q.Group, q.Node, r.Body, r.Error)
			}
		}
		// What the agent asked is looked up under the node that was handed on.
		r := answersOf(c).Answer(t.Context(), ask.Request{Method: ask.AgentLookup, Node: nodeA, Args: other})
		var reply agentapi.LookupReply
		if r.Error != nil || json.Unmarshal(r.Body, &reply) != nil || reply.Node.UUID != nodeA || reply.Config.AgentToken == agentapi.Masked || !reply.Config.SkipBMCDetect {
			t.Errorf("lookup of the own group: %s, %v", r.Body, r.Error)
		}
		if r := answersOf(c).Answer(t.Context(), ask.Request{Method: ask.MachineSeen, Args: sign}); r.Error != nil {
			t.Errorf("a sign of the own group: %v", r.Error)
		}
	})
}

// LocatesBMC implements driver.Located.
func (*machine) LocatesBMC() {}
