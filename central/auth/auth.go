// Package auth finds out who asks: a Strategy reads a request's credentials and says
// which Caller it is.
//
// What a caller may do is none of its business, that is package policy's. It imports
// nothing of the project. A Caller never changes after it was made; every Strategy is safe
// for concurrent use.
package auth

import (
	"net/http"
	"slices"
)

// Caller is who a request comes from.
type Caller struct {
	// User is the name to show, UserID what identifies the user for ever; with strategies
	// that know only a name they are equal.
	User, UserID string
	// Project is the UUID (or, with OIDC, whatever the claim holds) that nodes' owner and
	// lessee are compared with; empty for callers of the system.
	Project, ProjectName string
	// Domain is the one that the user belongs to, ProjectDomain the project's.
	Domain, ProjectDomain string
	// System: the caller acts on the whole installation, not within a project.
	System bool
	// Unscoped: the system is what the caller acts on for want of anything that names a scope.
	Unscoped bool
	// Roles in lower case.
	Roles []string
}

// Has reports whether the caller holds a role.
func (c *Caller) Has(role string) bool { return slices.Contains(c.Roles, role) }

// Name is what records say of the caller: its id, else its name.
func (c *Caller) Name() string {
	if c.UserID != "" {
		return c.UserID
	}
	return c.User
}

// Strategy is a way to authenticate.
type Strategy interface {
	// Authenticate returns the request's caller. It returns ErrNone where the request
	// carries none of the strategy's credentials, so that another strategy may look, and
	// *Denied where they are not good or cannot be checked.
	Authenticate(*http.Request) (*Caller, error)
	// Missing is the refusal of a request without credentials.
	Missing() *Denied
	// Challenges are the WWW-Authenticate headers of a 401.
	Challenges() []string
}

// Open reports whether s takes a request without any credentials for somebody's.
func Open(s Strategy) bool {
	_, err := s.Authenticate(&http.Request{Header: http.Header{}})
	return err == nil
}
