package inspection

import (
	"errors"
	"fmt"
)

// Run processes an inspection: what hooks look at, what hooks do, and the rules, in the order in
// which they are applied. An error is a *Failure, and nothing of s is to be written then.
func (p *Processor) Run(s *Subject, rules []Rule) error {
	if err := p.hooks(s); err != nil {
		return asFailure(err)
	}
	for i := range rules {
		if err := rules[i].apply(s); err != nil {
			return asFailure(fmt.Errorf("rule %s: %w", rules[i].UUID, err))
		}
	}
	return nil
}

// asFailure makes any error a *Failure; one that is inside keeps its own words.
func asFailure(err error) error {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{err.Error()}
}

// apply runs the rule's actions if all its conditions hold.
func (r *Rule) apply(s *Subject) error {
	for i := range r.Conditions {
		yes, err := r.Conditions[i].holds(s)
		if err != nil {
			return err
		}
		if !yes {
			s.Log.Debug("inspection rule does not apply", "rule", r.UUID, "node", s.Node.UUID, "condition", r.Conditions[i].Op)
			return nil
		}
	}
	for i := range r.Actions {
		if err := r.Actions[i].apply(s); err != nil {
			return err
		}
	}
	return nil
}
