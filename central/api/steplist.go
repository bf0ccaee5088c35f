package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// runbookRank is what the steps of runbooks call their rank. These may leave out their
// arguments.
const runbookRank = "order"

// steppedKinds are the interfaces that have steps for deploying and cleaning, in the order of
// Ironic's errors.
var steppedKinds = []string{"vendor", "power", "management", "firmware", "deploy", "bios", "raid"}

// stepsField is the required list of steps of a resource; rank is what the steps call
// their rank: "priority" or "order".
func stepsField[T any](rank string, since microversion.Version, at func(*T) *[]store.ListedStep) fields.Field[T] {
	get := func(t *T) any {
		list := make([]any, len(*at(t)))
		for i, s := range *at(t) {
			list[i] = wire.Members{"interface", s.Interface, "step", s.Step, "args", mask(s.Args), rank, s.Rank}
		}
		return list
	}
	stored := func(t *T) any {
		list := make([]any, len(*at(t)))
		for i, s := range *at(t) {
			args := s.Args
			if args == nil {
				args = map[string]any{}
			}
			list[i] = map[string]any{"interface": s.Interface, "step": s.Step, "args": args, rank: s.Rank}
		}
		return list
	}
	return fields.Field[T]{Name: "steps", Since: since, Get: get, Stored: stored, Required: true,
		Set:   func(t *T, v any) { *at(t), _ = readListedSteps(rank, v) },
		Check: func(v any) (any, error) { _, err := readListedSteps(rank, v); return v, err },
		Trim:  func(v any) any { return trimSteps(rank, v) },
	}.Write()
}

// readListedSteps reads the steps of a template or runbook, or says what is wrong.
func readListedSteps(rank string, v any) ([]store.ListedStep, error) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not of type 'array'", wire.Repr(v))
	}
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("[] should be non-empty")
	case len(list) > maxSteps:
		return nil, fmt.Errorf("there are %d steps, and at most %d are allowed", len(list), maxSteps)
	}
	steps := make([]store.ListedStep, len(list))
	seen, twice := map[string]bool{}, []string(nil)
	var misshapen, wrong error // of the last step that is so, which Ironic names
	for i, item := range list {
		s := &steps[i]
		step := fmt.Sprintf("step %d", i+1)
		if err := checkListedStep(rank, item); err != nil {
			misshapen = fields.Inside(step, err)
			continue
		}
		if err := readListedStep(s, rank, item); err != nil {
			wrong = fields.Inside(step, err)
			continue
		}
		name := fmt.Sprintf("interface: %s, step: %s", s.Interface, s.Step)
		if seen[name] && !slices.Contains(twice, name) {
			twice = append(twice, name)
		}
		seen[name] = true
	}
	if err := cmp.Or(misshapen, wrong); err != nil {
		return nil, err
	}
	if twice != nil {
		return nil, wire.Invalid("Deploy template invalid: Duplicate deploy steps. A template cannot have multiple deploy steps with the same "+
			"interface and step. Duplicates: %s.", strings.Join(twice, "; "))
	}
	return steps, nil
}

// trimSteps takes from the steps of a PATCH what steps do not have, which Ironic drops there and
// refuses in a POST.
func trimSteps(rank string, v any) any {
	list, _ := v.([]any)
	for _, item := range list {
		step, _ := item.(map[string]any)
		maps.DeleteFunc(step, func(name string, _ any) bool { return !slices.Contains(stepMembers(rank), name) })
	}
	return v
}

// stepMembers are what a step has.
func stepMembers(rank string) []string { return []string{"interface", "step", "args", rank} }

// checkListedStep says whether a step has what it must have, and nothing else.
func checkListedStep(rank string, item any) error {
	m, ok := item.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not of type 'object'", wire.Repr(item))
	}
	known := stepMembers(rank)
	for _, name := range known {
		if _, given := m[name]; !given && (name != "args" || rank != runbookRank) {
			return fmt.Errorf("'%s' is a required property", name)
		}
	}
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(name string) bool { return slices.Contains(known, name) })
	if len(unknown) > 0 {
		return errors.New(fields.NotAllowed(unknown))
	}
	return nil
}

// readListedStep reads a step that checkListedStep has passed. Of several wrong values it names
// the last by name.
func readListedStep(s *store.ListedStep, rank string, item any) error {
	m, _ := item.(map[string]any)
	var isText, ok bool
	if s.Step, isText = m["step"].(string); !isText {
		return fmt.Errorf("%s is not of type 'string'", wire.Repr(m["step"]))
	}
	if s.Step == "" {
		return errors.New("'' should be non-empty")
	}
	n, err := readRank(m[rank])
	if err != nil {
		return err
	}
	s.Rank = n
	if s.Interface, isText = m["interface"].(string); !isText {
		return fmt.Errorf("%s is not of type 'string'", wire.Repr(m["interface"]))
	}
	if !slices.Contains(steppedKinds, s.Interface) {
		return fmt.Errorf("%s is not one of ['%s']", wire.Repr(s.Interface), strings.Join(steppedKinds, "', '"))
	}
	args, given := m["args"]
	if s.Args, ok = args.(map[string]any); !ok && given {
		return fmt.Errorf("%s is not of type 'object'", wire.Repr(args))
	}
	return nil
}

// readRank reads the rank of a step, which may be a text of digits.
func readRank(v any) (int, error) {
	n, isInt := v.(int) // as stored
	if !isInt {
		n, isInt = whole(v)
	}
	if number, isNumber := v.(json.Number); isNumber && !isInt {
		i, is := fields.Integer(number)
		n, isInt = int(i), is
	}
	switch text, isText := v.(string); {
	case !isInt && isText:
		return 0, fmt.Errorf("%s does not match '^[0-9]+$'", wire.Repr(text))
	case !isInt:
		return 0, fmt.Errorf("%s is not valid under any of the given schemas. Possible root cause: %[1]s is not of type 'integer'", wire.Repr(v))
	case n < 0:
		return 0, fmt.Errorf("%d is less than the minimum of 0", n)
	}
	return n, nil
}
