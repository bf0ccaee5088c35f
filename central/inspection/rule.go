package inspection

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Main is the phase of an inspection in which rules are applied, the only one that Ironic's have:
// after the hooks have changed the node.
const Main = "main"

// Rule is what is done with a node (Actions, in their order) when all the Conditions hold.
type Rule struct {
	UUID       string
	Conditions []Condition
	Actions    []Action
}

// Condition asks one question about a node or what was found in it.
type Condition struct {
	operation
	Not      bool
	Multiple string // how a loop's answers are put together: any, all, first or last
}

// Action changes a node or what was found in it.
type Action struct{ operation }

// operation is the name of an operator or action with its arguments.
type operation struct {
	Op   string
	Args map[string]any
	Loop any // a list, of items, or an object, which is one item; nil: none
}

// signature says what an operation's arguments are called, in their order.
type signature struct{ required, optional []string }

// maxOperations bounds the conditions, and the actions, of a rule.
const maxOperations = 256

// Parse reads the conditions and actions of a rule, decoded from JSON, or says what is
// wrong with them.
func Parse(conditions, actions []any) (r Rule, err error) {
	if len(conditions) > maxOperations || len(actions) > maxOperations {
		return r, fmt.Errorf("a rule has at most %d conditions and %d actions", maxOperations, maxOperations)
	}
	for i, v := range conditions {
		c, err := parseCondition(v)
		if err != nil {
			return r, at(fmt.Sprintf("condition %d", i+1), err)
		}
		r.Conditions = append(r.Conditions, c)
	}
	if len(actions) == 0 {
		return r, fmt.Errorf("'actions' must hold at least one action: [] is too short")
	}
	for i, v := range actions {
		op, err := parseOperation(v, actionNames, func(name string) (signature, bool) {
			a, known := actionTable[name]
			return a.signature, known
		})
		if err != nil {
			return r, at(fmt.Sprintf("action %d", i+1), err)
		}
		r.Actions = append(r.Actions, Action{op})
	}
	return r, nil
}

// at says where in a rule an error is.
func at(where string, err error) error {
	if form, ok := errors.AsType[*FormError](err); ok {
		return &FormError{where, form.Text}
	}
	return fmt.Errorf("%s: %w", where, err)
}

func parseCondition(v any) (c Condition, err error) {
	c.operation, err = parseOperation(v, operatorNames, func(name string) (signature, bool) {
		name, c.Not = cutNot(name)
		o, known := operatorTable[name]
		return o.signature, known
	})
	if err != nil {
		return c, err
	}
	c.Op, _ = cutNot(c.Op)
	m, _ := v.(map[string]any)
	c.Multiple = "any"
	if how, given := m["multiple"]; given {
		if c.Multiple, _ = how.(string); !slices.Contains(multiples, c.Multiple) {
			return c, notOneOf(how, multiples)
		}
	}
	return c, nil
}

// cutNot takes the exclamation mark off an operator that is negated.
func cutNot(op string) (string, bool) {
	return strings.CutPrefix(op, "!")
}

// parseOperation reads one of names.
func parseOperation(v any, names []string, lookup func(string) (signature, bool)) (op operation, err error) {
	m, ok := v.(map[string]any)
	if !ok {
		return op, misshapen("%s is not of type 'object'", repr(v))
	}
	asked, given := m["op"]
	if !given {
		return op, misshapen("'op' is a required property")
	}
	op.Op, _ = asked.(string)
	sig, known := lookup(op.Op)
	if !known {
		return op, notOneOf(asked, names)
	}
	args, given := m["args"]
	if !given {
		return op, misshapen("'args' is a required property")
	}
	if op.Args, err = sig.bind(args); err != nil {
		return op, fmt.Errorf("%s: %w", op.Op, err)
	}
	switch loop := m["loop"].(type) {
	case nil:
		if _, given := m["loop"]; given {
			return op, misshapen("None is not of type 'array', 'object'")
		}
	case []any:
		if len(loop) > 0 {
			op.Loop = loop
		}
	case map[string]any:
		if len(loop) > 0 {
			op.Loop = loop
		}
	default:
		return op, misshapen("%s is not of type 'array', 'object'", repr(loop))
	}
	return op, nil
}

// bind gives arguments, by name or by place, their names.
func (s signature) bind(v any) (map[string]any, error) {
	all := slices.Concat(s.required, s.optional)
	args := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		args = v
	case []any:
		for i, value := range v[:min(len(v), len(all))] {
			args[all[i]] = value
		}
	default:
		return nil, fmt.Errorf("args must be either a list or an object")
	}
	var missing, unexpected []string
	for _, name := range s.required {
		if _, given := args[name]; !given {
			missing = append(missing, name)
		}
	}
	for name := range args {
		if !slices.Contains(all, name) {
			unexpected = append(unexpected, name)
		}
	}
	switch {
	case missing != nil:
		return nil, fmt.Errorf("missing required argument(s): %s", strings.Join(missing, ", "))
	case unexpected != nil:
		slices.Sort(unexpected)
		return nil, fmt.Errorf("unexpected argument(s): %.200s", strings.Join(unexpected, ", "))
	}
	return args, nil
}

// number returns a JSON number as float64.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
