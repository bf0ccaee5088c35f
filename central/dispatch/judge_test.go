package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
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
					p.Steps = []work.Step{{Interface: "deploy", Step: "typo", Priority: 7, Args: map[string]any{"password": "secret", "seconds": json.Number("3"), "when": "now", "nothing": nil,
						"token": "", "password_length": 9.0, "auth_password": json.Number("471147114711"), "list": []any{"a", map[string]any{"size": 1.0, "auth_key": []any{"secret"}, "bmc_token": 4711.0}}}}}
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
			want := map[string]any{"password": seal.Withheld, "seconds": 3.0, "when": "now", "nothing": nil, "token": "", "password_length": 9.0, "auth_password": 0.0,
				"list": []any{"a", map[string]any{"size": 1.0, "auth_key": seal.Withheld, "bmc_token": 0.0}}}
			if c.verb != "inspect" && (!asked.Whole || len(asked.Steps) != 1 || !reflect.DeepEqual(asked.Steps[0].Args, want)) {
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

// The steps of the deploy templates that match the instance's traits are judged too. One that the rack refuses
// is a 400 that changes nothing.
func TestStepsOfDeployTemplatesAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		verb   string
		from   provision.State
		traits any // of the instance
		want   int // status; 0: accepted
	}{
		"deploy":                         {"active", provision.Available, []any{"CUSTOM_A"}, http.StatusBadRequest},
		"rebuild":                        {"rebuild", provision.Active, []any{"CUSTOM_A"}, http.StatusBadRequest},
		"a template that does not match": {"active", provision.Available, []any{"CUSTOM_B"}, 0},
		"no traits":                      {"active", provision.Available, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				if err := tx.SetTraits(ctx, node, []string{"CUSTOM_A", "CUSTOM_B"}); err != nil {
					return err
				}
				return tx.InsertDeployTemplate(ctx, &store.DeployTemplate{UUID: uuid.NewString(), Name: "CUSTOM_A",
					Steps: []store.ListedStep{{Interface: "deploy", Step: "typo", Args: map[string]any{"name": "hidden", "seconds": 3.0}, Rank: 70}}})
			})
			if err != nil {
				t.Fatal(err)
			}
			b.put(c.from, provision.NoState, func(n *store.Node) { n.InstanceInfo = map[string]any{"traits": c.traits} })
			var asked ask.Flow
			b.Ask = asker(func(q ask.Request) (json.RawMessage, error) {
				if err := json.Unmarshal(q.Args, &asked); err != nil {
					t.Error(err)
				}
				if slices.ContainsFunc(asked.Steps, func(s work.Step) bool { return s.Step == "typo" }) {
					return json.RawMessage(`{"steps":{"result":false,"reason":"no such step"}}`), nil
				}
				return json.RawMessage(`{"steps":{"result":true}}`), nil
			})
			before, told := b.node(), b.told.Load()
			err = b.verb(c.verb, func(p *Provision) {
				p.Steps = []work.Step{{Interface: "deploy", Step: "own", Priority: 60}}
			})
			if status(err) != c.want || c.want == 0 && err != nil || err != nil && !strings.Contains(err.Error(), "no such step") {
				t.Fatalf("%v, want status %d", err, c.want)
			}
			after := b.node()
			if c.want == 0 {
				if len(asked.Steps) != 1 || after.WorkID == "" {
					t.Errorf("asked about %+v; work %q", asked.Steps, after.WorkID)
				}
				return
			}
			if after.ProvisionState != c.from || after.Generation != before.Generation || after.WorkID != "" || after.LastError != "" || b.told.Load() != told {
				t.Errorf("the node is in %q with work %q, generation %d to %d", after.ProvisionState, after.WorkID, before.Generation, after.Generation)
			}
			if len(asked.Steps) != 2 || asked.Steps[1].Priority != 70 || asked.Steps[1].Args["name"] != "hidden" || asked.Steps[1].Args["seconds"] != 3.0 {
				t.Errorf("asked about %+v", asked.Steps)
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
