package auth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Claims says which of a token's claims mean what. A dot in a name leads into an object:
// "realm_access.roles".
type Claims struct {
	// User is the claim with the user's name; empty: "preferred_username", else the subject.
	User string
	// Project is the claim with the project that the caller acts in; empty: "project_id".
	Project string
	// System is the claim that says "all", or true, for callers of the system; empty: "system_scope".
	System string
	// Roles is the claim with a list of roles or groups; empty: "roles".
	Roles string
	// Grants turn values of the roles' claim into roles. Without any, values are roles.
	Grants []Grant
}

// Grant gives a role to who has a value among their roles or groups.
type Grant struct {
	Value  string
	Role   string
	System bool // a role of the system, else of the caller's project
}

// ParseGrant reads VALUE=system:ROLE or VALUE=project:ROLE.
func ParseGrant(text string) (Grant, error) {
	i := strings.LastIndex(text, "=")
	if i > 0 {
		scope, role, _ := strings.Cut(text[i+1:], ":")
		if role != "" && (scope == "system" || scope == "project") {
			return Grant{Value: text[:i], Role: strings.ToLower(role), System: scope == "system"}, nil
		}
	}
	return Grant{}, fmt.Errorf("--oidc-grant %q: want VALUE=system:ROLE or VALUE=project:ROLE", text)
}

func (c *Claims) check() error {
	for _, g := range c.Grants {
		if g.Value == "" || g.Role == "" {
			return errors.New("a grant needs a value and a role")
		}
	}
	return nil
}

// caller is who a token's claims speak of. Roles bring those below them along.
func (c *Claims) caller(subject string, claims map[string]any) (*Caller, error) {
	text := func(name, usual string) string {
		s, _ := claim(claims, cmp.Or(name, usual)).(string)
		return s
	}
	caller := &Caller{UserID: subject, User: cmp.Or(text(c.User, "preferred_username"), subject), Project: text(c.Project, "project_id")}
	values, err := texts(claim(claims, cmp.Or(c.Roles, "roles")))
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", cmp.Or(c.Roles, "roles"), err)
	}
	caller.System = slices.Contains([]any{"all", true, "true"}, claim(claims, cmp.Or(c.System, "system_scope")))
	if len(c.Grants) > 0 {
		var system, project []string
		for _, g := range c.Grants {
			switch {
			case !slices.Contains(values, g.Value):
			case g.System:
				system = append(system, g.Role)
			default:
				project = append(project, g.Role)
			}
		}
		if values = project; len(system) > 0 {
			values, caller.System = system, true
		} else {
			caller.System = false // only a grant makes one of the system
		}
	}
	if caller.System {
		caller.Project = ""
	}
	caller.Roles = implied(values)
	return caller, nil
}

// claim finds a claim by its name, as a whole or along its dots.
func claim(claims map[string]any, name string) any {
	if v, there := claims[name]; there {
		return v
	}
	first, rest, found := strings.Cut(name, ".")
	inner, ok := claims[first].(map[string]any)
	if !found || !ok {
		return nil
	}
	return claim(inner, rest)
}

// texts reads a list of texts, or one text with blanks between.
func texts(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return strings.Fields(v), nil
	case []any:
		list := make([]string, len(v))
		for i, item := range v {
			s, ok := item.(string)
			if !ok {
				return nil, errors.New("it holds a value that is not a string")
			}
			list[i] = s
		}
		return list, nil
	}
	return nil, errors.New("it is neither a list nor a string")
}
