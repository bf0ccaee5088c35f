// Package policy decides what a caller may do: a rule for each thing that can be asked
// for, with Ironic's names and defaults, which an operator's file may replace.
//
// A rule is an expression over the caller and the object that is asked about (Target). For
// one caller most of it is known before any object is: Rules.For keeps what is left, so
// that a list of nodes costs an administrator nothing and a tenant two comparisons each. That is
// remembered, for the caller's next request.
//
// It imports central/auth. Rules never change, besides what they remember, and are safe for
// concurrent use; whoever reads the file anew gets others.
package policy

import "fmt"

// Target is what a rule may ask about the object at hand. Empty fields match nobody.
type Target struct {
	NodeOwner, NodeLessee         string
	AllocationOwner, RunbookOwner string
}

// Rules are a whole policy.
type Rules struct {
	exprs map[string]*expr
	// serviceProject is the name of the project whose service role is one of the system; empty: none.
	serviceProject string
	views          views
}

// Default are Ironic's rules. The role "service" in serviceProject acts on the system; empty:
// in none.
func Default(serviceProject string) *Rules {
	r := &Rules{exprs: make(map[string]*expr, len(defaults)), serviceProject: serviceProject}
	for name, text := range defaults {
		e, err := parse(text)
		if err != nil {
			panic(fmt.Sprintf("policy: default of %s: %v", name, err))
		}
		r.exprs[name] = e
	}
	return r
}

// Known reports whether there is a rule of that name.
func (r *Rules) Known(name string) bool { return r.exprs[name] != nil }

// Decision is what is left of a rule once the caller is known.
type Decision struct {
	rest *expr // nil: no
}

// unknown is the rule of what has none.
var unknown = func() *expr {
	e, err := parse(systemAdmin)
	if err != nil {
		panic("policy: " + err.Error())
	}
	return e
}()

// Or is the decision of who passes d or other.
func (d Decision) Or(other Decision) Decision {
	switch {
	case d.Always() || other.Never():
		return d
	case d.Never() || other.Always():
		return other
	}
	return Decision{&expr{op: opOr, kids: []*expr{d.rest, other.rest}}}
}

// Always reports whether the caller passes whatever the object is.
func (d Decision) Always() bool { return d.rest != nil && d.rest.op == opTrue }

// Never reports whether the caller passes for no object.
func (d Decision) Never() bool { return d.rest == nil || d.rest.op == opFalse }

// Allows reports whether the caller passes for an object.
func (d Decision) Allows(t *Target) bool { return d.rest != nil && d.rest.holds(t) }
