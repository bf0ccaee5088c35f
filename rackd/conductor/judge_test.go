package conductor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// inWords is a step whose argument "how" must be a text.
func inWords(s driver.Step) driver.Step {
	s.Check = func(_ *node.Document, args map[string]any) error {
		if v, given := args["how"]; given {
			if _, is := v.(string); !is {
				return fmt.Errorf("how is %v", v)
			}
		}
		return nil
	}
	return s
}

// Central hears before it accepts a request what speaks against its steps.
func TestStepsAreJudgedBeforeTheyAreAccepted(t *testing.T) {
	step := func(name string, args map[string]any) work.Step {
		return work.Step{Interface: "deploy", Step: name, Priority: 50, Args: args}
	}
	for name, c := range map[string]struct {
		flow ask.Flow
		want string // part of the reason; empty: nothing speaks against it
	}{
		"no steps":                {ask.Flow{Verb: work.Rebuild}, ""},
		"a step that is there":    {ask.Flow{Verb: work.Clean, Steps: []work.Step{step("a", map[string]any{"how": nil})}}, ""},
		"a misspelt step":         {ask.Flow{Verb: work.Rebuild, Steps: []work.Step{step("typo", nil)}}, "deploy.typo"},
		"a misspelt clean step":   {ask.Flow{Verb: work.Clean, Steps: []work.Step{step("typo", nil)}}, "deploy.typo"},
		"an argument too many":    {ask.Flow{Verb: work.Service, Steps: []work.Step{step("a", map[string]any{"what": nil})}}, "unexpected arguments: what"},
		"an argument of a reboot": {ask.Flow{Verb: work.Clean, Steps: []work.Step{{Interface: "power", Step: "reboot", Args: map[string]any{"what": nil}}}}, "unexpected arguments: what"},
		"a wait of some time":     {ask.Flow{Verb: work.Clean, Steps: []work.Step{step("wait", map[string]any{"seconds": 1.0})}}, ""},
		"a ramdisk is forbidden":  {ask.Flow{Verb: work.Clean, DisableRamdisk: true, Steps: []work.Step{step("a", nil)}}, "requires booting a ramdisk"},
		"a wait in words":         {ask.Flow{Verb: work.Clean, Whole: true, Steps: []work.Step{step("wait", map[string]any{"seconds": "1"})}}, "give a number"},
		"a wait of null":          {ask.Flow{Verb: work.Clean, Whole: true, Steps: []work.Step{step("wait", map[string]any{"seconds": nil})}}, ""},
		"a wait of before":        {ask.Flow{Verb: work.Clean, Steps: []work.Step{step("wait", map[string]any{"seconds": nil})}}, ""},
		"a text":                  {ask.Flow{Verb: work.Clean, Whole: true, Steps: []work.Step{step("a", map[string]any{"how": "slowly"})}}, ""},
		"a secret":                {ask.Flow{Verb: work.Clean, Whole: true, Steps: []work.Step{step("a", map[string]any{"how": seal.Withheld})}}, ""},
		"a list":                  {ask.Flow{Verb: work.Clean, Whole: true, Steps: []work.Step{step("a", map[string]any{"how": []any{1.0}})}}, "how is [1]"},
		"null":                    {ask.Flow{Verb: work.Clean, Whole: true, Steps: []work.Step{step("a", map[string]any{"how": nil})}}, "how is <nil>"},
		"null in a deploy":        {ask.Flow{Verb: work.Rebuild, Whole: true, Steps: []work.Step{step("a", map[string]any{"how": nil})}}, "how is <nil>"},
		"a wait too long":         {ask.Flow{Verb: work.Clean, Steps: []work.Step{step("wait", map[string]any{"seconds": 1801.0})}}, "1800"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				s := newShelf()
				oneNode(s)
				c1, _, kill := conductorOn(t, s, "a", owned("a"), &machine{clean: []driver.Step{inWords(slowly("a", 0, &log))}}, nil)
				defer kill()
				args, err := json.Marshal(c.flow)
				if err != nil {
					t.Fatal(err)
				}
				reply := answersOf(c1).Answer(t.Context(), ask.Request{Method: ask.Validate, Node: nodeA, Args: args})
				var found map[string]ask.Validation
				if err := json.Unmarshal(reply.Body, &found); err != nil {
					t.Fatalf("%v, %+v", err, reply.Error)
				}
				v := found[ask.Steps]
				if v.Result == nil || *v.Result != (c.want == "") || !strings.Contains(v.Reason, c.want) {
					t.Errorf("judged %+v", v)
				}
			})
		})
	}
}
