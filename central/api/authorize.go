package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/store"
)

// readNode is the rule whose failure hides a node and all that belongs to it.
const readNode = "baremetal:node:get"

// nobodys is what rules see where there is no object.
var nobodys = &policy.Target{}

func denied(rule string) error {
	return wire.Errorf(http.StatusForbidden, "Access was denied to the following resource: %s", rule)
}

// authorize decides, before its handler runs, whether the caller may use a route. What
// the caller may not read is not found; only then is anything forbidden.
//
// Routes whose policy ends in ":list" are for everybody who may read something: who may
// not list all gets the list of their project, for which the handler asks Request.Scope. Who
// may list all is not asked whether they may list.
func (s *Server) authorize(r *Request, route *Route) error {
	if route.Policy == Public {
		return nil
	}
	r.may = s.Policy().For(&r.Caller)
	d := s.decide(r, route)
	what, list := strings.CutSuffix(route.Policy, ":list")
	list = list && r.may.Known(what+":list_all")
	all := list && r.listsAll(what)
	find := subjectOf(route)
	if find == nil {
		if all {
			return nil
		}
		if list {
			if err := r.limit(what); err != nil {
				return err
			}
		}
		return s.authorizeBody(r, route, d)
	}
	if (all || !list && d.Always()) && r.may.Decide(find.read).Always() {
		return nil // and a missing object is the handler's to report
	}
	if r.cause != nil { // it may change something: then what counts is whose the object is in that transaction
		return s.judgedAgain(r, func(ctx context.Context, at objects) error {
			target, err := find.target(s, ctx, r, at)
			if err == nil && !route.ByField && !d.Allows(target) {
				err = s.refusal(route)
			}
			return err
		})
	}
	target, err := find.target(s, r.Context(), r, s.Store)
	if err != nil {
		return err
	}
	if all {
		return nil
	}
	if list {
		if err := r.limit(what); err != nil {
			return err
		}
		r.scope = "" // what is listed below an object is as visible as that
	}
	if !route.ByField && !d.Allows(target) {
		return s.refusal(route)
	}
	return nil
}

// judgedAgain judges a request now and, by what is true then, in each of its transactions and before
// each question to a rack. An object may change hands after the request has begun, or while it waits for
// a node's lock: its former owner's request must not reach the new owner's object.
func (s *Server) judgedAgain(r *Request, judge func(context.Context, objects) error) error {
	r.judge = judge
	r.cause.Admit = func(ctx context.Context, tx *store.Tx) error { return judge(ctx, tx) }
	return judge(r.Context(), s.Store)
}

// mayStill judges a request by what is true now.
func (s *Server) mayStill(r *Request) error {
	if r.judge == nil {
		return nil
	}
	return r.judge(r.Context(), s.Store)
}

// decide decides a route as far as the caller decides it.
func (s *Server) decide(r *Request, route *Route) policy.Decision {
	d := r.may.Decide(route.Policy)
	if s.selfService(r, route.Own) {
		return d.Or(r.may.Decide(route.Own))
	}
	return d
}

// selfService reports whether a rule about what projects do with nodes of their own
// may let the caller pass.
func (s *Server) selfService(r *Request, rule string) bool {
	return rule != "" && !s.NoSelfService && r.may != nil && !r.Caller.System && !r.may.Decide(rule).Never()
}

// listsAll reports whether the caller may see all that there is of a kind.
func (r *Request) listsAll(what string) bool { return r.may.Allows(what+":list_all", nobodys) }

// limit limits a list to what the caller's project may see, unless the caller may see all.
func (r *Request) limit(what string) error {
	if r.listsAll(what) {
		return nil
	}
	var asked string
	switch what { // the others have no such argument, which their handlers say
	case "baremetal:allocation":
		asked = r.Query["owner"]
	case "baremetal:node", "baremetal:runbook":
		asked = r.Query["project"]
	}
	if r.Caller.Project == "" || asked != "" && asked != r.Caller.Project {
		return denied(what + ":list_all")
	}
	r.scope, r.unlimited = r.Caller.Project, true
	return nil
}

// Scope is the project that a list must be limited to; empty: none. Handlers of lists
// put it into their query; one that has not asked does not get its answer out.
func (r *Request) Scope() string {
	r.unlimited = false
	return r.scope
}

// authorizeBody decides where the path names no object: by the node that a new part of
// one names, or without any.
func (s *Server) authorizeBody(r *Request, route *Route, d policy.Decision) error {
	var named []string
	if route.Method == http.MethodPost && partsOfNodes[route.Path] && !d.Always() && !d.Never() {
		var err error
		if named, err = r.namedNodes(); err != nil {
			return err
		}
	}
	if len(named) == 0 {
		if !d.Allows(nobodys) {
			return s.refusal(route)
		}
		return nil
	}
	return s.judgedAgain(r, func(ctx context.Context, at objects) error {
		for _, ident := range named {
			target, err := s.ofNode(ctx, r, ident, at)
			if e, refused := errors.AsType[*wire.Error](err); refused && e.Status < 500 {
				target, err = nobodys, nil // one that the caller may not read counts as that of nobody
			}
			if err != nil {
				return err
			}
			if !d.Allows(target) {
				return s.refusal(route)
			}
		}
		return nil
	})
}

// refusal is what those hear who may not use a route.
func (s *Server) refusal(route *Route) error {
	if route.Last == "" || route.Last == route.Own && s.NoSelfService {
		return denied(route.Policy)
	}
	return denied(route.Last)
}

// see reports a node that the request may not read as one that there is not.
func (r *Request) see(n *store.Node, ident string) error {
	if r.may == nil || r.may.Allows(readNode, nodeTarget(n)) {
		return nil
	}
	return wire.Errorf(http.StatusNotFound, "Node %s could not be found.", ident)
}

// allowed refuses what a rule does not let the request do to a node, with 403. It is for
// rules beyond the route's, such as those of single fields. n may be nil.
func (s *Server) allowed(r *Request, rule string, n *store.Node) error {
	if n == nil {
		return r.allowed(rule, nobodys)
	}
	return r.allowed(rule, nodeTarget(n))
}

// allowed refuses what a rule does not let the request do to an object, with 403.
func (r *Request) allowed(rule string, t *policy.Target) error {
	if r.may == nil || r.may.Allows(rule, t) {
		return nil
	}
	return denied(rule)
}

func nodeTarget(n *store.Node) *policy.Target {
	return &policy.Target{NodeOwner: n.Owner, NodeLessee: n.Lessee}
}
