package policy

import (
	"fmt"
	"maps"
	"strings"

	"gopkg.in/yaml.v3"
)

// With is r with the rules of an operator's file in place of its own: YAML or JSON, an
// object from names to expressions, as oslo.policy's files are. Errors name the line. A
// name that begins with "baremetal:" or "ironyard:" must be one that there is, so that a misspelt one is
// not silently without effect; others are the operator's own, for rule:NAME.
func (r *Rules) With(text []byte) (*Rules, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	out := &Rules{exprs: maps.Clone(r.exprs), serviceProject: r.serviceProject}
	if doc.Kind == 0 || len(doc.Content) == 1 && doc.Content[0].Tag == "!!null" {
		return out, nil // nothing but comments
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: the file must map names of rules to expressions", root.Line)
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		switch {
		case lines[name.Value] != 0:
			return nil, fmt.Errorf("line %d: rule %s is there twice, first in line %d", name.Line, name.Value, lines[name.Value])
		case (strings.HasPrefix(name.Value, "baremetal:") || strings.HasPrefix(name.Value, "ironyard:")) && !r.Known(name.Value):
			return nil, fmt.Errorf("line %d: there is no rule %s", name.Line, name.Value)
		case value.Kind != yaml.ScalarNode || value.Tag != "!!str":
			return nil, fmt.Errorf("line %d: %s: the expression must be a string", value.Line, name.Value)
		}
		e, err := parse(value.Value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", value.Line, name.Value, err)
		}
		lines[name.Value] = name.Line
		out.exprs[name.Value] = e
	}
	out.inherit(lines)
	for name, line := range lines {
		if err := out.refers(name, out.exprs[name], nil); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	return out, nil
}

// refers checks the rules that e refers to: they exist, and none refers to itself.
func (r *Rules) refers(name string, e *expr, above []string) error {
	above = append(above, name)
	if len(above) > maxDepth {
		return fmt.Errorf("%s refers to itself, or through more than %d rules", above[0], maxDepth)
	}
	return r.refersEach(name, e, above)
}

func (r *Rules) refersEach(name string, e *expr, above []string) error {
	for _, kid := range e.kids {
		if err := r.refersEach(name, kid, above); err != nil {
			return err
		}
	}
	if e.op != opRule {
		return nil
	}
	if !r.Known(e.match) {
		return fmt.Errorf("%s refers to rule:%s, which does not exist", name, e.match)
	}
	return r.refers(e.match, r.exprs[e.match], above)
}
