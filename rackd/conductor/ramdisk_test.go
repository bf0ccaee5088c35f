package conductor

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/runner"
	"github.com/ironyard/ironyard/rackd/refusal"
	"github.com/ironyard/ironyard/rackd/view"
)

// inspecting returns a conductor that is not started and its runner of an inspection,
// which is in a state.
func inspecting(state provision.State) (*Conductor, *runner.Runner) {
	s := newShelf()
	oneNode(s)
	w := view.Work{Doc: work.Document{ID: "w", Node: nodeA, Verb: work.Inspect, Entry: provision.Inspecting, State: state, Owner: "a"}, Revision: 1}
	s.works[nodeA] = &w
	ms := &members{owner: owned("a"), alive: &s.alive}
	ms.held.Store(true)
	c := New(Config{Name: "a", Documents: eyes{s, "a"}, Members: ms, Keys: seal.NewKeyring("", testKey), Metrics: noMetrics{}, Log: slog.New(slog.DiscardHandler)})
	r := runner.New(c.deps, s.nodes[nodeA], w, func() {})
	c.runners[nodeA] = r
	return c, r
}

// An inventory reaches the inspection as the ramdisk sent it, with what is unknown here,
// when central hands it on as it was sent; and by its fields when an agent gives it so.
func TestInventoryReachesTheInspectionAsSent(t *testing.T) {
	const sent = `{"interfaces":[{"name":"eno1","mac_address":"52:54:00:00:00:01"}],"memory":{"physical_mb":2048},"of_tomorrow":{"x":[1]}}`
	const beside = `{"extra":{"vendor_tool":"1.2"},"all":[true]}`
	shown := `{"boot_id":"` + testKey.BootID(nodeA, "w", 0) + `",`
	for name, c := range map[string]struct{ args, sent, beside string }{
		"as sent":                {`{"sent":` + sent + `,"plugin_data":` + beside + `}`, sent, beside},
		"as sent, fields beside": {`{"hostname":"other","interfaces":[],"sent":` + sent + `}`, sent, ""},
		"by its fields":          {sent, "", ""},
	} {
		for _, state := range []provision.State{provision.Inspecting, provision.InspectWait} {
			conductor, r := inspecting(state)
			if reply := answersOf(conductor).Answer(t.Context(), ask.Request{Method: ask.RamdiskInspected, Node: nodeA, Args: []byte(shown + c.args[1:])}); reply.Error != nil {
				t.Fatalf("%s, in state %q: %+v", name, state, reply.Error)
			}
			got := r.Sent()
			if got == nil || len(got.Interfaces) != 1 || got.Interfaces[0].Name != "eno1" || got.Memory.PhysicalMB != 2048 || got.Hostname != "" {
				t.Fatalf("%s, in state %q: the inspection has %+v", name, state, got)
			}
			if string(got.Sent) != c.sent || string(got.PluginData) != c.beside {
				t.Errorf("%s: as sent %q and beside it %q, want %q and %q", name, got.Sent, got.PluginData, c.sent, c.beside)
			}
		}
	}
}

// What nobody waits for, or nobody can read, changes nothing and says why.
func TestInventoryThatNobodyTakes(t *testing.T) {
	for name, q := range map[string]struct {
		node, args, says string
		state            provision.State
		status           int
	}{
		"a node that is unknown":       {"nobody", `{}`, refusal.ErrNoNode.Error(), provision.InspectWait, http.StatusNotFound},
		"a node that is not inspected": {nodeA, `{}`, refusal.ErrNoNode.Error(), provision.CleanWait, http.StatusNotFound},
		"no JSON":                      {nodeA, `{`, "unexpected end", provision.InspectWait, http.StatusBadRequest},
		"as sent, but no inventory":    {nodeA, `{"sent":{"interfaces":"none"}}`, "inventory of node " + nodeA, provision.InspectWait, http.StatusBadRequest},
	} {
		c, r := inspecting(q.state)
		err := answersOf(c).Answer(t.Context(), ask.Request{Method: ask.RamdiskInspected, Node: q.node, Args: []byte(q.args)}).Error
		if err == nil || err.Status != q.status || !strings.Contains(err.Message, q.says) {
			t.Errorf("%s: %+v, want status %d and %q", name, err, q.status, q.says)
		}
		if got := r.Sent(); got != nil {
			t.Errorf("%s: the inspection was given %+v", name, got)
		}
	}
}
