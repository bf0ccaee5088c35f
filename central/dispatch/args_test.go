package dispatch

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Arguments that no rack could be sent are refused, and leave the node as it was: it would stay in
// the state that the request puts it into.
func TestLargeArguments(t *testing.T) {
	for _, c := range []struct {
		verb string
		from provision.State
		size int
		want int
	}{
		{"clean", provision.Manageable, maxArgs / 2, 0},
		{"clean", provision.Manageable, maxArgs, http.StatusBadRequest},
		{"service", provision.Active, maxArgs, http.StatusBadRequest},
		{"active", provision.Available, maxArgs, http.StatusBadRequest},
	} {
		b := newBench(t)
		b.put(c.from, provision.NoState, nil)
		before, statements := b.node(), b.Store.Statements()
		err := b.verb(c.verb, func(p *Provision) {
			p.Steps = []work.Step{{Interface: "bios", Step: "apply_configuration", Priority: 50, Args: map[string]any{"settings": strings.Repeat("x", c.size)}}}
		})
		if status(err) != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s with %d bytes: %v, want status %d", c.verb, c.size, err, c.want)
		}
		if n := b.Store.Statements() - statements; c.want != 0 && n > 1 {
			t.Errorf("%s with %d bytes: %d statements, want the read of the node alone: what was written has to be undone for all that share the commit", c.verb, c.size, n)
		}
		if n := b.node(); c.want != 0 && (n.ProvisionState != c.from || n.WorkID != "" || n.Revision != before.Revision) {
			t.Errorf("%s with %d bytes: the node is %q, has work %q and revision %d, was %d", c.verb, c.size, n.ProvisionState, n.WorkID, n.Revision, before.Revision)
		}
	}
}
