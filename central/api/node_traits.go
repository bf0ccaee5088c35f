package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/trait"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

// maxTraits bounds the traits of a node.
const maxTraits = 50

func (s *Server) nodeTraits() Resource {
	const set, clear = "baremetal:node:traits:set", "baremetal:node:traits:delete"
	const all, one = "nodes/{node}/traits", "nodes/{node}/traits/{trait}"
	// Before there were any Ironic took the word for something else: a field of the node
	// that came later, a method that a node does not have.
	const late = http.StatusMethodNotAllowed
	return Resource{Since: 37, Routes: []Route{
		{Method: http.MethodGet, Path: all, Late: http.StatusNotAcceptable, Policy: "baremetal:node:traits:list", Handle: s.listTraits, Shows: traitsAnswer},
		{Method: http.MethodPut, Path: all, Summary: "Replace the traits of a node", Late: late, Policy: set, Handle: s.replaceTraits, Takes: traitsBody},
		{Method: http.MethodDelete, Path: all, Summary: "Remove all traits of a node", Policy: clear, Handle: s.clearTraits},
		{Method: http.MethodPut, Path: one, Summary: "Add a trait to a node", Late: late, Policy: set, Handle: s.addTrait, Takes: nothing},
		{Method: http.MethodDelete, Path: one, Summary: "Remove a trait from a node", Policy: clear, Handle: s.removeTrait},
	}}
}

func (s *Server) listTraits(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	return ok(append(wire.AppendValue([]byte(`{"traits":`), n.Traits), '}'))
}

func (s *Server) replaceTraits(r *Request) (Reply, error) {
	traits, err := readTraits(r)
	if err != nil {
		return Reply{}, err
	}
	return s.changeTraits(r, func(*store.Node) ([]string, error) {
		if traits == nil {
			return nil, eitherTraits("node")
		}
		return traits, nil
	})
}

// eitherTraits refuses a body that says all traits where the path names one, and one that
// says nothing where it does not: of is whose traits they are. Ironic says so only of what is
// there.
func eitherTraits(of string) error {
	return wire.Invalid("A single %[1]s trait may be added via PUT /v1/%[1]ss/<%[1]s identifier>/traits/<trait> with no body, or all %[1]s traits may be "+
		"replaced via PUT /v1/%[1]ss/<%[1]s identifier>/traits with the list of traits specified in the request body.", of)
}

// readTraits reads the traits of a body, nil when it says nothing; one too many is kept, for
// whoever bounds them.
func readTraits(r *Request) ([]string, error) {
	said, err := r.JSON(wire.MaxBody)
	if err != nil {
		return nil, err
	}
	body, isObject := said.(map[string]any)
	if said != nil && !isObject {
		return nil, wire.Invalid("Schema error for body: %s is not of type 'object'", wire.Repr(said))
	}
	if err := onlyOf("body", body, "traits"); err != nil {
		return nil, err
	}
	if _, given := body["traits"]; !given {
		return nil, nil
	}
	list, isList := body["traits"].([]any)
	if !isList {
		return nil, wire.Invalid("Schema error for body: %s is not of type 'array'", wire.Repr(body["traits"]))
	}
	traits := make([]string, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, v := range list {
		name, isText := v.(string)
		if !isText {
			return nil, wire.Invalid("Schema error for body: %s is not of type 'string'", wire.Repr(v))
		}
		if err := checkTrait(name); err != nil {
			return nil, wire.Invalid("Schema error for body: %v", err)
		}
		if !seen[name] {
			traits = append(traits, name)
		}
		seen[name] = true
	}
	return traits, nil
}

func (s *Server) clearTraits(r *Request) (Reply, error) {
	return s.changeTraits(r, func(*store.Node) ([]string, error) { return nil, nil })
}

func (s *Server) addTrait(r *Request) (Reply, error) {
	name := r.Param(1)
	if err := checkTrait(name); err != nil {
		return Reply{}, wire.Invalid("Schema error for trait: %v", err)
	}
	all, err := readTraits(r)
	if err != nil {
		return Reply{}, err
	}
	reply, err := s.changeTraits(r, func(n *store.Node) ([]string, error) {
		switch {
		case all != nil:
			return nil, eitherTraits("node")
		case slices.Contains(n.Traits, name):
			return n.Traits, nil
		}
		return append(slices.Clone(n.Traits), name), nil
	})
	reply.Location = r.Base + "/v1/nodes/" + r.Param(0) + "/traits/" + name
	return reply, err
}

func (s *Server) removeTrait(r *Request) (Reply, error) {
	name := r.Param(1)
	return s.changeTraits(r, func(n *store.Node) ([]string, error) {
		i := slices.Index(n.Traits, name)
		if i < 0 {
			return nil, wire.Errorf(http.StatusNotFound, "Node %s doesn't have a trait '%.255s'", n.UUID, name)
		}
		return slices.Delete(slices.Clone(n.Traits), i, i+1), nil
	})
}

// changeTraits replaces a node's traits by what change makes of them.
func (s *Server) changeTraits(r *Request, change func(*store.Node) ([]string, error)) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	err := s.Store.UpdateOf(r.Context(), r.Param(0), func(ctx context.Context, tx *store.Tx) error {
		n, err := s.nodeForWrite(ctx, r, tx, r.Param(0))
		if err != nil {
			return err
		}
		if dispatch.Busy(n) {
			return dispatch.Locked(n)
		}
		traits, err := change(n)
		if err != nil {
			return err
		}
		if len(traits) > maxTraits {
			return wire.Invalid("Could not modify traits for node %s as it would exceed the maximum number of traits per node (%d vs. %d)", n.UUID, len(traits), maxTraits)
		}
		if err := tx.SetTraits(ctx, n.UUID, traits); err != nil {
			return err
		}
		return tx.Tell(ctx, dispatch.Dirty(n))
	})
	if err != nil {
		return Reply{}, storeError(err)
	}
	return noContent()
}

// checkTrait refuses what is no trait's name, in the words in which Ironic does.
func checkTrait(name string) error {
	if len(name) > trait.MaxLength {
		return fmt.Errorf("'%.300s' is too long", name)
	}
	if !trait.Valid(name) {
		return fmt.Errorf("'%.80s' is not valid under any of the given schemas. Possible root cause: '%.80s' does not match '^CUSTOM_[A-Z0-9_]+$'", name, name)
	}
	return nil
}
