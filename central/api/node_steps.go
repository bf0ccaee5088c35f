package api

import (
	"encoding/json"
	"slices"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// maxSteps bounds the steps of one request.
const maxSteps = 256

// stepsOf says which events take which list of steps, and which cannot do without.
var stepsOf = map[string]struct {
	events   []provision.Event
	required bool
	priority bool // each step must say its priority
}{
	"clean_steps":   {[]provision.Event{provision.EventClean}, true, false},
	"service_steps": {[]provision.Event{provision.EventService}, true, false},
	"deploy_steps":  {[]provision.Event{provision.EventDeploy, provision.EventRebuild}, false, true},
}

// readSteps reads the list of steps that the verb takes and refuses the others. runbook:
// the steps come from a runbook.
func readSteps(r *Request, p *dispatch.Provision, body map[string]any, runbook bool) error {
	for _, name := range []string{"clean_steps", "deploy_steps", "service_steps"} {
		rule := stepsOf[name]
		takes := slices.Contains(rule.events, p.Verb.Event)
		switch v := body[name]; {
		case v == nil && takes && rule.required && !runbook:
			return wire.Invalid("%q is required when setting target provision state to %s", name, p.Verb.Name)
		case v == nil:
		case !takes:
			return wire.Invalid("%q is not valid when setting target provision state to %s", name, p.Verb.Name)
		case name == "deploy_steps" && r.Version < deployStepsSince:
			return wire.NotAcceptable("The argument deploy_steps", deployStepsSince)
		default:
			steps, err := parseSteps(name, v, rule.priority)
			if err != nil {
				return err
			}
			p.Steps = steps
		}
	}
	return nil
}

func parseSteps(name string, v any, priority bool) ([]work.Step, error) {
	list, ok := v.([]any)
	if !ok || len(list) > maxSteps {
		return nil, wire.Invalid("Schema error for %s: it must be a list of at most %d steps", name, maxSteps)
	}
	steps := make([]work.Step, len(list))
	for i, item := range list {
		if err := parseStep(&steps[i], item, priority); err != nil {
			return nil, wire.Invalid("Schema error for %s: step %d: %v", name, i+1, err)
		}
	}
	if len(steps) == 0 && !priority {
		return nil, wire.Invalid("Schema error for %s: [] is too short", name)
	}
	return steps, nil
}

func parseStep(s *work.Step, item any, priority bool) error {
	m, ok := item.(map[string]any)
	if !ok {
		return wire.Invalid("it must be an object")
	}
	allowed := []string{"interface", "step", "args"}
	if priority {
		allowed = append(allowed, "priority")
	} else {
		allowed = append(allowed, "order") // sent by old clients, never meant anything
	}
	if err := only(m, allowed...); err != nil {
		return err
	}
	s.Interface, _ = m["interface"].(string)
	if !slices.Contains(node.InterfaceKinds, s.Interface) {
		return wire.Invalid("'interface' must be one of %v", node.InterfaceKinds)
	}
	if s.Step, _ = m["step"].(string); s.Step == "" {
		return wire.Invalid("'step' is a required property")
	}
	if m["args"] != nil {
		if s.Args, ok = m["args"].(map[string]any); !ok {
			return wire.Invalid("'args' must be an object")
		}
	}
	if !priority {
		return nil
	}
	number, ok := m["priority"].(json.Number)
	n, isWhole := whole(number)
	if !ok || !isWhole || n < 0 {
		return wire.Invalid("'priority' must be a whole number, 0 or more")
	}
	s.Priority = n
	return nil
}
