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

// objects are where subjects are looked for: the store, as it is now, or a transaction.
type objects interface {
	Node(ctx context.Context, ident string) (*store.Node, error)
	Port(ctx context.Context, ident string) (*store.Port, error)
	Portgroup(ctx context.Context, ident string) (*store.Portgroup, error)
	VolumeConnector(ctx context.Context, id string) (*store.VolumeConnector, error)
	VolumeTarget(ctx context.Context, id string) (*store.VolumeTarget, error)
	Allocation(ctx context.Context, ident string) (*store.Allocation, error)
	AllocationOf(ctx context.Context, node string) (*store.Allocation, error)
	Runbook(ctx context.Context, ident string) (*store.Runbook, error)
}

// subject is the kind of object that a path names, for the rules that depend on whose it is.
type subject struct {
	path string // that begins the routes' paths
	read string // the rule without which it is not found
	// target says whose the object is; it fails as for a missing one where the caller may not read it.
	target func(*Server, context.Context, *Request, objects) (*policy.Target, error)
}

// subjects are all of them. Objects of the system as a whole (chassis, drivers, …) have
// no owner and need none.
var subjects = []*subject{
	{"nodes/validate", readNode, (*Server).queriedNode},
	{"nodes/{node}/allocation", readAllocations, (*Server).allocationOfNode},
	{"nodes/{node}", readNode, func(s *Server, ctx context.Context, r *Request, at objects) (*policy.Target, error) {
		return s.ofNode(ctx, r, r.Param(0), at)
	}},
	{"ports/{port}", readNode, ofPart(objects.Port, "Port", func(p *store.Port) string { return p.Node })},
	{"portgroups/{portgroup}", readNode, ofPart(objects.Portgroup, "Portgroup", func(p *store.Portgroup) string { return p.Node })},
	{"volume/connectors/{volume}", readNode, ofPart(objects.VolumeConnector, "Volume connector", func(v *store.VolumeConnector) string { return v.Node })},
	{"volume/targets/{volume}", readNode, ofPart(objects.VolumeTarget, "Volume target", func(v *store.VolumeTarget) string { return v.Node })},
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

// ofNode says whose a node is that the request names. A name that another node bears by now is
// refused: part of the request may be about the node that bore it before.
func (s *Server) ofNode(ctx context.Context, r *Request, ident string, at objects) (*policy.Target, error) {
	n, err := s.findNode(r, ident, func(_ context.Context, ident string) (*store.Node, error) { return at.Node(ctx, ident) })
	if err != nil {
		return nil, err
	}
	if !r.sameNode(n) {
		return nil, conflict("The name %.255s was given to another node during this request. Nothing was changed; please retry.", ident)
	}
	return nodeTarget(n), nil
}

// sameNode reports whether n is the node that the request's path named when it was judged first.
func (r *Request) sameNode(n *store.Node) bool {
	if r.cause == nil || len(r.params) == 0 {
		return true
	}
	if r.judged == "" {
		r.judged = n.UUID
	}
	return r.judged == n.UUID
}

func (s *Server) queriedNode(ctx context.Context, r *Request, at objects) (*policy.Target, error) {
	for _, name := range []string{"node", "node_uuid"} {
		if r.Query.Has(name) {
			return s.ofNode(ctx, r, r.Query[name], at)
		}
	}
	return nobodys, nil
}

// ofPart finds the node of a part of one that the path names, such as a port.
func ofPart[T any](find func(objects, context.Context, string) (*T, error), noun string, nodeOf func(*T) string) func(*Server, context.Context, *Request, objects) (*policy.Target, error) {
	return func(_ *Server, ctx context.Context, r *Request, at objects) (*policy.Target, error) {
		ident := r.Param(0)
		missing := wire.Errorf(http.StatusNotFound, "%s %.255s could not be found.", noun, ident)
		part, err := find(at, ctx, ident)
		if errors.Is(err, store.ErrNotFound) {
			return nil, missing
		}
		if err != nil {
			return nil, err
		}
		n, err := at.Node(ctx, nodeOf(part))
		if errors.Is(err, store.ErrNotFound) || err == nil && r.see(n, "") != nil {
			return nil, missing
		}
		if err != nil {
			return nil, err
		}
		return nodeTarget(n), nil
	}
}

// namedNodes are the nodes that a body names as the place of a new item.
func (r *Request) namedNodes() (idents []string, err error) {
	body, err := r.peek()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"node_uuid", "node_ident"} {
		if value, given := body[name]; given {
			ident, _ := value.(string)
			idents = append(idents, ident)
		}
	}
	return idents, nil
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
