package dispatch

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// What the rack says against steps or interfaces is a 400, and the node stays as it was. A
// rack that cannot be asked, or is of an older version, objects to nothing.
func TestStepsAreRefusedBeforeTheyAreAccepted(t *testing.T) {
	const fine = `"power":{"result":true},"management":{"result":true},"boot":{"result":true},"deploy":{"result":true}`
	for name, c := range map[string]struct {
		verb, answer string
		from         provision.State
		want         int // status; 0: accepted
		reason       string
	}{
		"a wrong step of a rebuild":    {"rebuild", `{` + fine + `,"steps":{"result":false,"reason":"no such step"}}`, provision.Active, 400, "no such step"},
		"a boot that is refused":       {"rebuild", `{"power":{"result":true},"boot":{"result":false,"reason":"no port"},"deploy":{"result":true}}`, provision.Active, 400, "boot: no port"},
		"a wrong step of a cleaning":   {"clean", `{` + fine + `,"steps":{"result":false,"reason":"no such step"}}`, provision.Manageable, 400, "no such step"},
		"a wrong step of a service":    {"service", `{` + fine + `,"steps":{"result":false,"reason":"no such step"}}`, provision.Active, 400, "no such step"},
		"an inspection without a boot": {"inspect", `{` + fine + `,"inspect":{"result":true},"steps":{"result":false,"reason":"no port"}}`, provision.Manageable, 400, "no port"},
		"all is well":                  {"rebuild", `{` + fine + `,"steps":{"result":true}}`, provision.Active, 0, ""},
		"an older rack":                {"rebuild", `{` + fine + `}`, provision.Active, 0, ""},
		"a rack that gives no answer":  {"rebuild", ``, provision.Active, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put(c.from, provision.NoState, nil)
			var asked ask.Flow
			b.Ask = asker(func(q ask.Request) (json.RawMessage, error) {
				if err := json.Unmarshal(q.Args, &asked); err != nil {
					t.Error(err)
				}
				if c.answer == "" {
					return nil, errors.New("no answer")
				}
				return json.RawMessage(c.answer), nil
			})
			err := b.verb(c.verb, func(p *Provision) {
				p.Version = 115
				if c.verb != "inspect" {
					p.Steps = []work.Step{{Interface: "deploy", Step: "typo", Priority: 7, Args: map[string]any{"password": "secret", "seconds": 3.0}}}
				}
			})
			if status(err) != c.want && (c.want != 0 || err != nil) {
				t.Errorf("%v, want status %d", err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), c.reason) {
				t.Errorf("refused: %v", err)
			}
			n := b.node()
			if (n.ProvisionState == c.from) != (c.want == http.StatusBadRequest) {
				t.Errorf("the node is %q", n.ProvisionState)
			}
			if c.verb != "inspect" && (len(asked.Steps) != 1 || asked.Steps[0].Args["password"] != nil || asked.Steps[0].Args["seconds"] != 3.0) {
				t.Errorf("asked about %+v", asked)
			}
			if c.want == 0 {
				if w, err := b.Store.Work(t.Context(), n.WorkID); err != nil || w.Args.From != c.from || w.Args.Steps[0].Args["password"] == nil {
					t.Errorf("work %+v, %v", w, err)
				}
			}
		})
	}
}

// The rack is told that a request was accepted in maintenance: some of those run though.
func TestRequestsInMaintenanceSaySo(t *testing.T) {
	for _, on := range []bool{false, true} {
		b := newBench(t)
		b.put(provision.Manageable, provision.NoState, func(n *store.Node) { n.SetMaintenance(on, "") })
		if err := b.verb("inspect", nil); err != nil {
			t.Fatal(err)
		}
		if w, err := b.Store.Work(t.Context(), b.node().WorkID); err != nil || w.Args.InMaintenance != on {
			t.Errorf("in maintenance %t: %+v, %v", on, w, err)
		}
	}
}
