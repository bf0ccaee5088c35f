package direct

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

// What our agent says of its steps' arguments is judged when it was asked, before any of its steps runs. Of the arguments of other agents
// nothing is known, nor of kinds that a newer agent may have.
func TestArgumentsOfTheAgentsStepsAreJudged(t *testing.T) {
	step := func(kind string) string {
		return `{"interface":"deploy","step":"tune","argsinfo":{"what":{"description":"d","required":true` + kind + `}}}`
	}
	const text, whole, object = `,"ironyard_kind":"text"`, `,"ironyard_kind":"whole number"`, `,"ironyard_kind":"object"`
	for name, c := range map[string]struct {
		kind  string
		value any
		wrong string
	}{
		"a text":                  {text, "a", ""},
		"no text":                 {text, 3.0, "the argument what of step deploy.tune is no text"},
		"a secret that is sealed": {object, seal.Withheld, ""},
		"a list for a text":       {text, []any{"a"}, "is no text"},
		"null":                    {text, nil, ""},
		"a whole number":          {whole, 3.0, ""},
		"a part of a number":      {whole, 3.5, "is no whole number"},
		"a number in words":       {whole, "3", "is no whole number"},
		"an object":               {object, map[string]any{"a": 1.0}, ""},
		"a list for an object":    {object, []any{}, "is no object"},
		"a kind of tomorrow":      {`,"ironyard_kind":"date"`, 3.0, ""},
		"ironic-python-agent":     {``, []any{}, ""},
	} {
		err := stepOf(t, agentapi.StepManager, step(c.kind)).Check(&node.Document{UUID: "n"}, map[string]any{"what": c.value})
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
