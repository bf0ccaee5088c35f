package policy

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/ironyard/ironyard/central/auth"
)

// View is the rules as they are for one caller. It is safe for concurrent use.
type View struct {
	rules  *Rules
	caller auth.Caller

	mu        sync.RWMutex
	decisions map[string]Decision // by rule, of those that there are
}

// views are the views of those who have asked, whose next request is decided already.
type views struct {
	mu    sync.RWMutex
	known map[string]*View // by identity
}

// maxViews bounds the callers that are remembered.
const maxViews = 1024

// For is the rules as they are for one caller.
func (r *Rules) For(c *auth.Caller) *View {
	var room [256]byte
	who := appendIdentity(room[:0], c)
	r.views.mu.RLock()
	v := r.views.known[string(who)]
	r.views.mu.RUnlock()
	if v != nil {
		return v
	}
	v = &View{rules: r, caller: *c, decisions: map[string]Decision{}}
	v.caller.Roles = slices.Clone(c.Roles)
	r.views.mu.Lock()
	defer r.views.mu.Unlock()
	if r.views.known == nil || len(r.views.known) >= maxViews {
		r.views.known = map[string]*View{}
	}
	r.views.known[string(who)] = v
	return v
}

// appendIdentity appends all that is known of a caller, whatever rules may ask.
func appendIdentity(b []byte, c *auth.Caller) []byte {
	one := func(text string) {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	var kind byte
	if c.System {
		kind |= 1
	}
	if c.Unscoped {
		kind |= 2
	}
	b = append(b, kind)
	for _, text := range [...]string{c.Project, c.ProjectName, c.User, c.UserID, c.Domain, c.ProjectDomain} {
		one(text)
	}
	for _, role := range c.Roles {
		one(role)
	}
	return b
}

// Decide decides a rule as far as the caller decides it. An unknown
// rule is passed by the system's administrators only.
func (v *View) Decide(name string) Decision {
	v.mu.RLock()
	d, known := v.decisions[name]
	v.mu.RUnlock()
	if known {
		return d
	}
	e := v.rules.exprs[name]
	if e == nil {
		return Decision{v.reduce(unknown, 0)}
	}
	if d = (Decision{no}); v.inScope(name) {
		d = Decision{v.reduce(e, 0)}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.decisions[name] = d
	return d
}

// Allows reports whether the caller passes a rule for an object.
func (v *View) Allows(name string, t *Target) bool { return v.Decide(name).Allows(t) }

// Known reports whether there is a rule of that name.
func (v *View) Known(name string) bool { return v.rules.Known(name) }
