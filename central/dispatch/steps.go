package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/store"
	doc "github.com/ironyard/ironyard/protocol/node"
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

// family fills in the children of p's node for steps that run on them: those that a step names, or all. Each must be one
// that its caller may use so (Provision.MayUse).
func (d *Dispatcher) family(ctx context.Context, p *Provision) ([]work.Step, error) {
	n, steps := p.Node, p.Steps
	if !slices.ContainsFunc(steps, func(s work.Step) bool { return s.OnChildren }) {
		return steps, nil
	}
	// All of them: more than this would be refused for the size of their UUIDs (checkArgs).
	list, err := d.Store.Nodes(ctx, store.NodeQuery{ParentNode: n.UUID, Page: store.Page{Limit: maxArgs / len(n.UUID)}})
	if err != nil {
		return nil, err
	}
	children, all := make(map[string]*store.Node, len(list)), make([]string, len(list))
	for i, c := range list {
		children[c.UUID], all[i] = c, c.UUID
	}
	steps = slices.Clone(steps)
	for i := range steps {
		s := &steps[i]
		if !s.OnChildren {
			s.Children = nil
			continue
		}
		named := len(s.Children) > 0
		if !named {
			s.Children = all
		}
		if err := p.mayUse(s, children, named); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// mayUse refuses a step on children of p's node some of which are none, are not the caller's to use, or must be left
// alone. What the caller may not know of counts as what there is not. named: the caller has named them.
func (p *Provision) mayUse(s *work.Step, children map[string]*store.Node, named bool) error {
	n, step := p.Node.UUID, s.Interface+"."+s.Step
	if len(s.Children) == 0 {
		return refuse(http.StatusBadRequest, "Node %s has no child nodes, on which step %s is to run.", n, step)
	}
	for _, id := range s.Children {
		c := children[id]
		hidden, err := c == nil, error(nil)
		if c != nil && p.MayUse != nil {
			err = p.MayUse(c)
			hidden = errors.Is(err, store.ErrNotFound)
		}
		switch {
		case hidden && named:
			return refuse(http.StatusNotFound, "Node %s could not be found among the child nodes of node %s, on which step %s is to run.", id, n, step)
		case hidden:
			return refuse(http.StatusForbidden, "Step %s is to run on all child nodes of node %s, and not all of them are yours to use: name those that are in limit_child_node_execution.", step, n)
		case err != nil:
			return err
		case c.Protected:
			return refuse(http.StatusForbidden, "Node %s is protected, and step %s is to run on it as a child of node %s", id, step, n)
		case doc.Attended(c.Maintenance, c.Fault):
			return refuse(http.StatusBadRequest, "Node %s is in maintenance mode, and step %s is to run on it as a child of node %s.", id, step, n)
		case c.WorkID != "": // its rack would refuse the step; where that has ended it already, what is asked beside it would meet the step
			return Locked(c)
		}
	}
	return nil
}

// stillFamily is what family found, by what tx reads. It returns a line for the history of each child.
func (d *Dispatcher) stillFamily(ctx context.Context, tx *store.Tx, p *Provision, owner string) ([]*store.HistoryEntry, error) {
	var lines []*store.HistoryEntry
	children := map[string]*store.Node{}
	for i := range p.Steps {
		s := &p.Steps[i]
		if !s.OnChildren {
			continue
		}
		for _, id := range s.Children {
			if _, read := children[id]; read {
				continue
			}
			c, err := tx.Node(ctx, id)
			switch {
			case err == nil && c.ParentNode == p.Node.UUID:
				children[id] = c
			case err != nil && !errors.Is(err, store.ErrNotFound):
				return nil, err
			}
		}
		if err := p.mayUse(s, children, true); err != nil {
			return nil, err
		}
		for _, id := range s.Children {
			c := children[id]
			lines = append(lines, &store.HistoryEntry{Node: id, CreatedAt: d.Now().UTC(), Severity: "INFO", EventType: "provisioning", Conductor: owner, User: p.User, Project: p.Project,
				Event: fmt.Sprintf("step %s.%s accepted, of %s of its parent node %s", s.Interface, s.Step, p.Verb.Name, p.Node.UUID), State: c.ProvisionState, Target: c.TargetProvisionState, Revision: c.Revision})
		}
	}
	return lines, nil
}

// Engaged is the refusal of a request that would touch n, or put it into other hands: open work of its parent has a step that is to run
// on it. Its BMC may be at work for that step. The caller who asked for the step had a right to n then. n is as tx has read it.
func Engaged(ctx context.Context, tx *store.Tx, n *store.Node) error {
	if n.ParentNode == "" {
		return nil
	}
	w, err := tx.OpenWork(ctx, n.ParentNode)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	steps := w.Args.Steps
	if w.Verb == work.Delete && w.Args.Supersedes != "" { // it waits for what the BMC does for the flow whose place it has taken
		before, err := tx.Work(ctx, w.Args.Supersedes)
		switch {
		case err == nil:
			steps = append(slices.Clone(steps), before.Args.Steps...)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
	}
	for _, s := range steps {
		if s.OnChildren && slices.Contains(s.Children, n.UUID) {
			return refuse(http.StatusConflict, "Step %s.%s of work %s on node %s (%q) is to run on its child node %s. Until then nothing else is asked of that one, and it keeps its parent, owner and lessee: wait, or abort the work.",
				s.Interface, s.Step, w.ID, n.ParentNode, w.Verb, n.UUID)
		}
	}
	return nil
}
