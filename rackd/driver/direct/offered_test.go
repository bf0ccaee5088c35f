package direct

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// An agent that does not say which steps it has fails the flow: a cleaning without steps would pass for one that has erased. One that
// says that no step runs by itself is believed, and the history says what that means.
func TestAnAgentMustSayItsSteps(t *testing.T) {
	for name, c := range map[string]struct {
		said  any
		fails string // part of the error
		told  bool   // the history says that nothing is erased
	}{
		"nothing":               {said: json.RawMessage(`null`), fails: "no clean_steps"},
		"an empty object":       {said: map[string]any{}, fails: "no clean_steps"},
		"deploy steps":          {said: map[string]any{"deploy_steps": map[string]any{"m": []any{}}}, fails: "no clean_steps"},
		"null":                  {said: map[string]any{"clean_steps": nil}, fails: "no clean_steps"},
		"no managers":           {said: map[string]any{"clean_steps": map[string]any{}}, fails: "name no hardware manager"},
		"misspelt":              {said: map[string]any{"Clean_steps": map[string]any{"m": []any{}}, "steps": 1}, fails: "no clean_steps"},
		"a manager without":     {said: map[string]any{"clean_steps": map[string]any{"m": []any{}}}, told: true},
		"a list without":        {said: map[string]any{"clean_steps": []any{}}, told: true},
		"one that is asked for": {said: map[string]any{"clean_steps": map[string]any{"m": []any{map[string]any{"interface": "deploy", "step": "burnin"}}}}, told: true},
		"one that runs":         {said: map[string]any{"clean_steps": map[string]any{"m": []any{map[string]any{"interface": "deploy", "step": "erase_devices", "priority": 10}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Answer = func(string) (any, string) { return c.said, "" }
				i := New(Settings{})
				task := r.Task(networkboot.IPXE())
				err := error(nil)
				for _, s := range i.Up(r.Node, driver.InClean) {
					r.NextStep()
					for waits := true; waits && err == nil; {
						var out driver.Outcome
						out, err = s.Run(t.Context(), task)
						_, waits = out.Waiting()
					}
				}
				if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v, want %q", err, c.fails)
				}
				if _, known, _ := i.Offered(task.Facts, driver.InClean); known != (c.fails == "") {
					t.Errorf("its steps are known: %v", known)
				}
				if told := slices.ContainsFunc(r.Phases, func(p string) bool { return strings.Contains(p, "erases nothing") }); told != c.told {
					t.Errorf("phases %q", r.Phases)
				}
			})
		})
	}
}
