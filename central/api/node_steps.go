package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// maxSteps bounds the steps of one request.
const maxSteps = 256

// stepKinds are the kinds of interface whose steps a list may name.
var stepKinds = []string{"vendor", "power", "management", "firmware", "deploy", "bios", "raid"}

// stepRule says which events take a list of steps, and what it looks like.
type stepRule struct {
	events   []provision.Event
	kinds    []string
	verb     string // what Ironic's errors call the events
	required bool   // the events cannot do without
	priority bool   // each step must say its priority, and its arguments
}

var stepsOf = map[string]stepRule{
	"clean_steps":   {[]provision.Event{provision.EventClean}, stepKinds, "clean", true, false},
	"service_steps": {[]provision.Event{provision.EventService}, stepKinds, "service", true, false},
	"deploy_steps":  {[]provision.Event{provision.EventDeploy, provision.EventRebuild}, stepKinds, "active or rebuild", false, true},
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
			return wire.Invalid("%q is only valid when setting target provision state to %s", name, rule.verb).Detailed("not to %s", p.Verb.Name)
		case name == "deploy_steps" && r.Version < deployStepsSince:
			return wire.NotAcceptable("The argument deploy_steps", deployStepsSince)
		default:
			steps, err := parseSteps(name, v, rule)
			if err != nil {
				return err
			}
			p.Steps = steps
		}
	}
	return nil
}

func parseSteps(name string, v any, rule stepRule) ([]work.Step, error) {
	list, _ := v.([]any) // as readProvision has seen
	if len(list) > maxSteps {
		return nil, wire.Invalid("Invalid %s: there are %d steps, and at most %d are allowed", name, len(list), maxSteps)
	}
	steps := make([]work.Step, len(list))
	before := 0
	for i, item := range list {
		if err := parseStep(&steps[i], item, rule); err != nil {
			return nil, wire.Invalid("Invalid %s: %v", name, err).Detailed("in step %d", i+1)
		}
		rank, said := orderOf(item)
		if said && rank < before {
			return nil, wire.Invalid("Invalid %s: step %d has the order %d and comes after one with the order %d: the steps of a request run as they are listed", name, i+1, rank, before)
		}
		before = max(before, rank)
	}
	if len(steps) == 0 && rule.required {
		return nil, wire.Invalid("Invalid %s: [] should be non-empty", name)
	}
	return steps, nil
}

func parseStep(s *work.Step, item any, rule stepRule) error {
	m, ok := item.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not of type 'object'", wire.Repr(item))
	}
	known := []string{"interface", "step", "args"}
	if rule.priority {
		known = append(known, "priority")
	} else {
		// "order" is that of a runbook's steps. A request's run as they are listed.
		known = append(known, "order", "execute_on_child_nodes", "limit_child_node_execution")
	}
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(name string) bool { return slices.Contains(known, name) })
	if len(unknown) > 0 {
		return errors.New(fields.NotAllowed(unknown))
	}
	required := known[:2]
	if rule.priority {
		required = known
	}
	for _, name := range required {
		if _, given := m[name]; !given {
			return fmt.Errorf("'%s' is a required property", name)
		}
	}
	if s.Interface, _ = m["interface"].(string); !slices.Contains(rule.kinds, s.Interface) {
		return fmt.Errorf("%s is not one of ['%s']", wire.Repr(m["interface"]), strings.Join(rule.kinds, "', '"))
	}
	if s.Step, ok = m["step"].(string); !ok {
		return fmt.Errorf("%s is not of type 'string'", wire.Repr(m["step"]))
	}
	if s.Step == "" {
		return errors.New("'' should be non-empty")
	}
	args, given := m["args"]
	if s.Args, ok = args.(map[string]any); given && !ok {
		return fmt.Errorf("%s is not of type 'object'", wire.Repr(args))
	}
	if rule.priority {
		n, err := readRank(m["priority"])
		s.Priority = n
		return err
	}
	if v, given := m["order"]; given {
		if _, err := readRank(v); err != nil {
			return err
		}
	}
	return parseChildren(s, m)
}

// orderOf reads the place that a step says it has; said: it says one.
func orderOf(item any) (rank int, said bool) {
	m, _ := item.(map[string]any)
	v, said := m["order"]
	if !said {
		return 0, false
	}
	rank, err := readRank(v)
	return rank, err == nil
}

// parseChildren reads whether the step is to run on child nodes instead, and on which.
func parseChildren(s *work.Step, m map[string]any) (err error) {
	if v, given := m["execute_on_child_nodes"]; given {
		on, isBool := v.(bool)
		if !isBool {
			return wire.Invalid("'execute_on_child_nodes' must be true or false")
		}
		s.OnChildren = on
	}
	named, given := m["limit_child_node_execution"]
	if !given {
		return nil
	}
	limit, ok := named.([]any)
	if !ok || len(limit) > maxSteps {
		return wire.Invalid("'limit_child_node_execution' must be a list of at most %d UUIDs", maxSteps)
	}
	for _, v := range limit {
		text, _ := v.(string)
		id, ok := wire.UUID(text)
		if !ok {
			return wire.Invalid("'limit_child_node_execution' must be a list of UUIDs, and %.80q is not a UUID", text)
		}
		s.Children = append(s.Children, id)
	}
	if len(s.Children) > 0 && !s.OnChildren {
		return wire.Invalid("'limit_child_node_execution' is given without 'execute_on_child_nodes': the step would run on the node itself")
	}
	return nil
}
