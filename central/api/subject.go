package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/store"
)

// subject is the kind of object that a path names, for the rules that depend on whose it is.
type subject struct {
	path string // that begins the routes' paths
	read string // the rule without which it is not found
	// target says whose the object is; it fails as for a missing one where the caller may not read it.
	target func(*Server, *Request) (*policy.Target, error)
}

// subjects are all of them. Objects of the system as a whole (chassis, drivers, …) have
// no owner and need none.
var subjects = []*subject{
	{"nodes/validate", readNode, (*Server).queriedNode},
	{"nodes/{node}/allocation", readAllocations, (*Server).allocationOfNode},
	{"nodes/{node}", readNode, func(s *Server, r *Request) (*policy.Target, error) { return s.ofNode(r, r.Param(0)) }},
	{"ports/{port}", readNode, func(s *Server, r *Request) (*policy.Target, error) {
		return ofPart(s, r, "Port", s.Store.Port, func(p *store.Port) string { return p.Node })
	}},
	{"portgroups/{portgroup}", readNode, func(s *Server, r *Request) (*policy.Target, error) {
		return ofPart(s, r, "Portgroup", s.Store.Portgroup, func(p *store.Portgroup) string { return p.Node })
	}},
	{"volume/connectors/{volume}", readNode, func(s *Server, r *Request) (*policy.Target, error) {
		return ofPart(s, r, "Volume connector", s.Store.VolumeConnector, func(v *store.VolumeConnector) string { return v.Node })
	}},
	{"volume/targets/{volume}", readNode, func(s *Server, r *Request) (*policy.Target, error) {
		return ofPart(s, r, "Volume target", s.Store.VolumeTarget, func(v *store.VolumeTarget) string { return v.Node })
	}},
	{"allocations/{allocation}", readAllocations, (*Server).namedAllocation},
	{"runbooks/{runbook}", readRunbooks, (*Server).namedRunbook},
}

// partsOfNodes are the collections whose new items name their node in the body.
var partsOfNodes = map[string]bool{"ports": true, "portgroups": true, "volume/connectors": true, "volume/targets": true}

func subjectOf(route *Route) *subject {
	if anonymous[route.Policy] {
		return nil // their handlers find the node that is meant
	}
	for _, s := range subjects {
		if route.Path == s.path || strings.HasPrefix(route.Path, s.path+"/") {
			return s
		}
	}
	return nil
}

func (s *Server) ofNode(r *Request, ident string) (*policy.Target, error) {
	n, err := s.node(r, ident)
	if err != nil {
		return nil, err
	}
	return nodeTarget(n), nil
}

func (s *Server) queriedNode(r *Request) (*policy.Target, error) {
	for _, name := range []string{"node", "node_uuid"} {
		if r.Query.Has(name) {
			return s.ofNode(r, r.Query[name])
		}
	}
	return nobodys, nil
}

// ofPart finds the node of a part of one that the path names, such as a port.
func ofPart[T any](s *Server, r *Request, noun string, find func(context.Context, string) (*T, error), nodeOf func(*T) string) (*policy.Target, error) {
	ident := r.Param(0)
	missing := wire.Errorf(http.StatusNotFound, "%s %.255s could not be found.", noun, ident)
	part, err := find(r.Context(), ident)
	if errors.Is(err, store.ErrNotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	n, err := s.Store.Node(r.Context(), nodeOf(part))
	if errors.Is(err, store.ErrNotFound) || err == nil && r.see(n, "") != nil {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	return nodeTarget(n), nil
}

// namedNodes are the nodes that a body names as the place of a new item. One that the
// caller may not read counts as nobody's.
func (s *Server) namedNodes(r *Request) ([]*policy.Target, error) {
	body, err := r.peek()
	if err != nil {
		return nil, err
	}
	var targets []*policy.Target
	for _, name := range []string{"node_uuid", "node_ident"} {
		value, given := body[name]
		if !given {
			continue
		}
		ident, _ := value.(string)
		t, err := s.ofNode(r, ident)
		if e, refused := errors.AsType[*wire.Error](err); refused && e.Status < 500 {
			t, err = nobodys, nil
		}
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	if targets == nil {
		targets = []*policy.Target{nobodys}
	}
	return targets, nil
}

// peek reads the body as an object and leaves it to be read again.
func (r *Request) peek() (map[string]any, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, wire.MaxBody+1))
	if err != nil {
		return nil, wire.Invalid("The request's body could not be read: %v", err)
	}
	again := func() { r.Body = io.NopCloser(bytes.NewReader(raw)) }
	again()
	defer again()
	return r.Object()
}
