package conductor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// Root of an instance has what its deploy's agent was told: the id of a boot, and its token. Neither says anything of another node, nor of
// the same one once the deploy has ended, nor in the work that comes next: agents' and installers' calls are refused, and change nothing.
func TestAStolenTokenIsGoodForNothing(t *testing.T) {
	const nodeB, macB = "22222222-2222-4222-8222-222222222222", "52:54:00:00:00:02"
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available, Ports: []node.Port{{Address: macB, PXEEnabled: true}}})
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		for _, id := range []string{nodeA, nodeB} {
			s.request(id, work.Deploy, provision.Deploying, work.Args{})
		}
		synctest.Wait()
		stolen := lookupOf(c)
		told, err := c.LookupAgent(stolen)
		if err != nil {
			t.Fatal(err)
		}
		token := told.Config.AgentToken
		hb := agentapi.Heartbeat{CallbackURL: "https://10.0.0.1:9999", AgentVerifyCA: "PEM", AgentToken: token, BootID: "1"}
		if err := c.CheckToken(nodeA, token); err != nil {
			t.Fatalf("it is no token: %v", err)
		}
		refused := func(when, id, mac string) {
			t.Helper()
			before := len(s.events)
			report := agentapi.Heartbeat{Status: driver.InstallerEnded, AgentToken: token}
			_, kickstart := c.Installation(t.Context(), id, stolen.BootID)
			_, lookup := c.LookupAgent(ask.Lookup{Addresses: []string{mac}, Node: id, Caller: stolen.Caller})
			for what, err := range map[string]error{
				"a heartbeat": c.Heartbeat(id, ask.Heartbeat{Heartbeat: hb}), "an installer's report": c.Heartbeat(id, ask.Heartbeat{Heartbeat: report}),
				"lines for the log": c.CheckToken(id, token), "a kickstart": kickstart, "a lookup": lookup,
				"an inventory": c.Inspected(id, ask.Inspected{Caller: stolen.Caller}),
			} {
				if !errors.Is(err, refusal.ErrBadToken) && !errors.Is(err, refusal.ErrNoNode) {
					t.Errorf("%s: %s is answered with %v", when, what, err)
				}
			}
			synctest.Wait()
			if len(s.events) != before {
				t.Errorf("%s: it changes %+v", when, s.events[before:])
			}
		}
		refused("another node's deploy", nodeB, macB)
		time.Sleep(time.Second) // the agent boots
		if err := c.Heartbeat(nodeA, ask.Heartbeat{Heartbeat: hb}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if w := s.Work(nodeA).Doc; w.Open() || w.State != provision.Active {
			t.Fatalf("the deploy has not ended: %s", w.State)
		}
		refused("the deploy has ended", nodeA, "52:54:00:00:00:01")
		s.request(nodeA, work.Rebuild, provision.Deploying, work.Args{})
		synctest.Wait()
		if !s.Work(nodeA).Doc.Open() {
			t.Fatal("the next work does not wait for its agent")
		}
		refused("the work that comes next", nodeA, "52:54:00:00:00:01")
	})
}
