package dispatch

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/work"
)

// sendRaw lets its caller do anything to a BMC, so no list of steps may name it unless
// an operator allows that (Ironic's default).
var sendRaw = []string{"vendor.send_raw"}

// allowed refuses steps that the configuration forbids, whoever asks for them.
func (d *Dispatcher) allowed(steps []work.Step) error {
	forbidden := d.DisallowedSteps
	if forbidden == nil {
		forbidden = sendRaw
	}
	for _, s := range steps {
		if name := s.Interface + "." + s.Step; slices.Contains(forbidden, name) {
			return refuse(http.StatusBadRequest, "Step %s is not allowed here%s.", name, origin(s))
		}
	}
	return nil
}

func origin(s work.Step) string {
	if s.Origin == "" {
		return ""
	}
	return " (" + s.Origin + " asks for it)"
}

// family fills in the children of n for steps that run on them: those that a step names
// and that are n's, or all.
func (d *Dispatcher) family(ctx context.Context, n *store.Node, steps []work.Step) ([]work.Step, error) {
	if !slices.ContainsFunc(steps, func(s work.Step) bool { return s.OnChildren }) {
		return steps, nil
	}
	// All of them: more than this would be refused for the size of their UUIDs (checkArgs).
	children, err := d.Store.Nodes(ctx, store.NodeQuery{ParentNode: n.UUID, Page: store.Page{Limit: maxArgs / len(n.UUID)}})
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		for _, id := range s.Children {
			if _, err := d.Store.Node(ctx, id); s.OnChildren && errors.Is(err, store.ErrNotFound) {
				return nil, refuse(http.StatusNotFound, "Node %s could not be found: step %s.%s is to run on it as a child of node %s.", id, s.Interface, s.Step, n.UUID)
			} else if err != nil {
				return nil, err
			}
		}
	}
	steps = slices.Clone(steps)
	for i := range steps {
		s := &steps[i]
		if !s.OnChildren {
			s.Children = nil
			continue
		}
		limit := s.Children
		s.Children = nil
		for _, c := range children {
			if len(limit) == 0 || slices.Contains(limit, c.UUID) {
				s.Children = append(s.Children, c.UUID)
			}
		}
	}
	return steps, nil
}
