package policy

import (
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/auth"
)

// maxDepth bounds how deep rules may refer to others; Load refuses circles already.
const maxDepth = 32

var (
	yes = &expr{op: opTrue}
	no  = &expr{op: opFalse}
)

func constant(b bool) *expr {
	if b {
		return yes
	}
	return no
}

// reduce returns what is left of e for the view's caller.
func (v *View) reduce(e *expr, depth int) *expr {
	switch e.op {
	case opNot:
		switch inner := v.reduce(e.kids[0], depth); inner.op {
		case opTrue:
			return no
		case opFalse:
			return yes
		default:
			return &expr{op: opNot, kids: []*expr{inner}}
		}
	case opAnd, opOr:
		return v.reduceList(e, depth)
	case opRule:
		named := v.rules.exprs[e.match]
		if named == nil || depth > maxDepth {
			return no
		}
		return v.reduce(named, depth+1)
	case opCheck:
		return v.reduceCheck(e)
	}
	return e
}

func (v *View) reduceList(e *expr, depth int) *expr {
	decides, neutral := opFalse, yes // of "and"
	if e.op == opOr {
		decides, neutral = opTrue, no
	}
	var left []*expr
	for _, kid := range e.kids {
		kid = v.reduce(kid, depth)
		switch kid.op {
		case decides:
			return kid
		case neutral.op:
		default:
			left = append(left, kid)
		}
	}
	switch len(left) {
	case 0:
		return neutral
	case 1:
		return left[0]
	}
	return &expr{op: e.op, kids: left}
}

func (v *View) reduceCheck(e *expr) *expr {
	if e.kind == "role" {
		role, known := v.matched(e)
		return constant(known && slices.Contains(v.caller.Roles, strings.ToLower(role)))
	}
	mine := e.literal
	if !e.isLiteral {
		mine = attributes[e.kind](&v.caller)
	}
	if mine == "" {
		return no
	}
	if at := targetAttributes[e.match]; e.placeholder && at != nil {
		return &expr{op: opTarget, literal: mine, at: at}
	}
	other, known := v.matched(e)
	return constant(known && other == mine)
}

// matched is the right side of a check where that does not depend on the object.
func (v *View) matched(e *expr) (text string, known bool) {
	switch at := attributes[e.match]; {
	case !e.placeholder:
		return e.match, true
	case e.match == serviceProject:
		return v.rules.serviceProject, v.rules.serviceProject != ""
	case at != nil:
		return at(&v.caller), true
	}
	return "", false
}

// serviceProject is the only configuration that a rule may ask for.
const serviceProject = "config.service_project_name"

// attributes are what a rule may ask about the caller, besides its roles.
var attributes = map[string]func(*auth.Caller) string{
	"project_id":        func(c *auth.Caller) string { return c.Project },
	"tenant":            func(c *auth.Caller) string { return c.Project },
	"project_name":      func(c *auth.Caller) string { return c.ProjectName },
	"user_id":           func(c *auth.Caller) string { return c.UserID },
	"user":              func(c *auth.Caller) string { return c.UserID },
	"user_domain_id":    func(c *auth.Caller) string { return c.Domain },
	"domain_id":         func(c *auth.Caller) string { return c.Domain },
	"project_domain_id": func(c *auth.Caller) string { return c.ProjectDomain },
	"system_scope": func(c *auth.Caller) string {
		if c.System {
			return "all"
		}
		return ""
	},
	// Who reaches a rule has authenticated, and a project is one of administrators where
	// Keystone does not say otherwise.
	"is_public_api":    func(*auth.Caller) string { return "False" },
	"is_admin_project": func(*auth.Caller) string { return "True" },
}

// targetAttributes are what a rule may ask about the object.
var targetAttributes = map[string]func(*Target) string{
	"node.owner":       func(t *Target) string { return t.NodeOwner },
	"node.lessee":      func(t *Target) string { return t.NodeLessee },
	"allocation.owner": func(t *Target) string { return t.AllocationOwner },
	"runbook.owner":    func(t *Target) string { return t.RunbookOwner },
}
