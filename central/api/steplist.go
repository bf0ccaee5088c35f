package api

import (
	"encoding/json"
	"fmt"
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
		return nil, fmt.Errorf("there are %d steps, want %d at most", len(list), maxSteps)
	}
	steps := make([]store.ListedStep, len(list))
	seen, twice := map[string]bool{}, []string(nil)
	for i, item := range list {
		s := &steps[i]
		if err := readListedStep(s, rank, item); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("interface: %s, step: %s", s.Interface, s.Step)
		if seen[name] && !slices.Contains(twice, name) {
			twice = append(twice, name)
		}
		seen[name] = true
	}
	if twice != nil {
		return nil, wire.Invalid("Deploy template invalid: Duplicate deploy steps. A template cannot have multiple deploy steps with the same "+
			"interface and step. Duplicates: %s.", strings.Join(twice, "; "))
	}
	return steps, nil
}

func readListedStep(s *store.ListedStep, rank string, item any) error {
	m, ok := item.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not of type 'object'", wire.Repr(item))
	}
	for name := range m {
		if !slices.Contains([]string{"interface", "step", "args", rank}, name) {
			return fmt.Errorf("%s ('%.80s' was unexpected)", "Additional properties are not allowed", name)
		}
	}
	for _, name := range []string{"interface", "step", "args", rank} {
		if _, given := m[name]; !given && (name != "args" || rank != runbookRank) {
			return fmt.Errorf("'%s' is a required property", name)
		}
	}
	for _, name := range []string{"interface", "step"} {
		if _, isText := m[name].(string); !isText {
			return fmt.Errorf("%s is not of type 'string'", wire.Repr(m[name]))
		}
	}
	if s.Interface, _ = m["interface"].(string); !slices.Contains(steppedKinds, s.Interface) {
		return fmt.Errorf("%s is not one of ['%s']", wire.Repr(s.Interface), strings.Join(steppedKinds, "', '"))
	}
	if s.Step, _ = m["step"].(string); s.Step == "" {
		return fmt.Errorf("'' should be non-empty")
	}
	args, given := m["args"]
	if s.Args, ok = args.(map[string]any); !ok && given {
		return fmt.Errorf("%s is not of type 'object'", wire.Repr(args))
	}
	n, isInt := m[rank].(int) // as stored
	if !isInt {
		n, isInt = whole(m[rank])
		if number, isNumber := m[rank].(json.Number); isNumber && !isInt {
			i, is := fields.Integer(number)
			n, isInt = int(i), is
		}
	}
	switch {
	case !isInt:
		if text, isText := m[rank].(string); isText {
			return fmt.Errorf("%s does not match '^[0-9]+$'", wire.Repr(text))
		}
		return fmt.Errorf("%s is not valid under any of the given schemas. Possible root cause: %[1]s is not of type 'integer'", wire.Repr(m[rank]))
	case n < 0:
		return fmt.Errorf("%d is less than the minimum of 0", n)
	}
	s.Rank = n
	return nil
}
