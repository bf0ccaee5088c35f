package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/plan"
)

// family is the handle of a step that runs on child nodes, one after the other.
type family struct {
	Done   int             `json:"done"`             // children behind it
	Handle json.RawMessage `json:"handle,omitempty"` // of the step on the next one
	// Asked: a step that cannot be repeated is about to run on the next one, or has run.
	Asked bool `json:"asked,omitempty"`
	// Entered is when the step began on the next one; zero: with the parent's step, or a rackd that kept no such time runs it.
	Entered time.Time `json:"entered,omitzero"`
	// Way is that to the BMC of the next one when the step began there (driver.WayToBMC); empty: it has not, or a rackd that kept none has
	// begun it.
	Way string `json:"way,omitempty"`
}

// begun reports whether the step has begun on the next one, so that another run of it may do no more than look.
func (h *family) begun() bool { return h.Handle != nil || h.Asked }

// onChildren runs a step on child nodes. Their own work must be over. None
// begins while the parent's step changes them, because each write looks.
func (c *Catalog) onChildren(a driver.AskedStep) func(context.Context, *driver.Task) (driver.Outcome, error) {
	waiting := -1 // the child whose step asked this process to run it again
	return func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		var h family
		if raw := t.Record.Handle(); raw != nil {
			if err := json.Unmarshal(raw, &h); err != nil {
				return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of a step on child nodes cannot be read: %w", t.Node.Label(), raw, err)
			}
		}
		for h.Done < len(a.Children) {
			child, s, err := c.childTask(t, a, a.Children[h.Done], &h)
			if err != nil {
				return driver.Outcome{}, err
			}
			if way := driver.WayToBMC(child.Node); h.Way == "" {
				if err := enter(ctx, t, &h, child, way); err != nil {
					return driver.Outcome{}, err
				}
			} else if h.Way != way {
				return driver.Outcome{}, fmt.Errorf("driver_info of child node %s was changed since step %s.%s began on it, so that it leads to another BMC, and nothing is asked there: put the former address back, or look at both machines",
					child.Node.Label(), a.Interface, a.Step)
			}
			if !h.begun() { // else each write looks: to look how far the BMC is touches nothing
				if err := child.Fence.Check(); err != nil {
					return driver.Outcome{}, err
				}
			}
			if waiting != h.Done {
				if err := once(ctx, t, a, &h, s, child.Node); err != nil {
					return driver.Outcome{}, err
				}
			}
			out, err := s.Run(ctx, child)
			if err != nil && s.Kind == driver.Neither && !errors.Is(err, driver.ErrFenced) && ctx.Err() == nil {
				err = fmt.Errorf("%v", driver.Unnamed(child.Node, err)) // nothing of it has the step run again
			}
			if o := child.Record.(*childRecord).observed; !o.Empty() {
				err := c.cfg.Events.Insist(ctx, HardwareEvent(c.cfg.Name, child.Node, &o))
				if c.cfg.Events.NoteHardware(child.Node.UUID, &o, err); err != nil {
					return driver.Outcome{}, err
				}
			}
			if err != nil {
				return driver.Outcome{}, fmt.Errorf("step %s.%s on child node %s: %w", a.Interface, a.Step, child.Node.Label(), driver.Unnamed(child.Node, err))
			}
			if _, waits := out.Waiting(); waits {
				waiting = h.Done
				return out, nil
			}
			t.Record.Phase("child node", fmt.Sprintf("%s.%s on %s", a.Interface, a.Step, child.Node.Label()))
			t.Record.Idle() // that was the BMC of this child
			h = family{Done: h.Done + 1, Entered: time.Now().UTC()}
			if h.Done < len(a.Children) { // each child has the step's whole time
				raw, err := json.Marshal(h)
				return driver.Again(raw), err
			}
			if err := t.Record.SaveHandle(ctx, h); err != nil {
				return driver.Outcome{}, err
			}
		}
		return driver.Done(), nil
	}
}

// enter saves by which way the step goes to a child, and that it begins there now: the parent may have been in maintenance since it ended
// on the child before.
func enter(ctx context.Context, t *driver.Task, h *family, child *driver.Task, way string) error {
	h.Way = way
	if h.Done > 0 && !h.begun() {
		h.Entered = time.Now().UTC()
		child.Entered = h.Entered
	}
	return t.Record.SaveHandle(ctx, h)
}

// once saves that a step which cannot be repeated runs on a child next. One that may have run there is not run again.
func once(ctx context.Context, t *driver.Task, a driver.AskedStep, h *family, s driver.Step, child *node.Document) error {
	switch {
	case s.Kind != driver.Neither:
		return nil
	case h.Asked:
		return fmt.Errorf("step %s.%s on child node %s was running when its rackd was lost, or when another request came; it can be neither repeated nor re-attached: check the machine, then send the request again",
			a.Interface, a.Step, child.Label())
	}
	h.Asked = true
	return t.Record.SaveHandle(ctx, h)
}

// childTask is the task of a's step on one child.
func (c *Catalog) childTask(t *driver.Task, a driver.AskedStep, id string, h *family) (*driver.Task, driver.Step, error) {
	n, hw, s, err := c.childStep(t.Node, a, id)
	if err != nil {
		return nil, s, err
	}
	child := *t
	child.Node, child.Hardware, child.Facts, child.Args = n, hw, map[string]string{}, t.Args
	if !h.Entered.IsZero() {
		child.Entered = h.Entered
	}
	child.Agent = nil // it is the parent's
	child.Secrets = notKept{parent: t.Node, child: n}
	child.Fence, child.Record = childFence{t.Fence, c, n}, &childRecord{Recorder: t.Record, child: n.UUID, h: h}
	return &child, s, nil
}

// childStep finds a's step on one child of a parent.
func (c *Catalog) childStep(parent *node.Document, a driver.AskedStep, id string) (n *node.Document, hw *driver.Hardware, s driver.Step, err error) {
	known := c.cfg.Documents.Node(id)
	if known == nil {
		return nil, nil, s, fmt.Errorf("node %s: its child node %s is in a conductor group that rackd %s does not serve: give both nodes the same group: %w", parent.Label(), id, c.cfg.Name, driver.ErrInvalid)
	}
	if n, err = c.cfg.Secrets.Open(known); err != nil {
		return nil, nil, s, fmt.Errorf("child node %s: %w", known.Label(), err)
	}
	if hw, err = c.cfg.Hardware.Resolve(n); err != nil {
		return nil, nil, s, err
	}
	alone := a
	alone.OnChildren = false
	s, ok := c.ownStep(alone)
	if ok && (a.Step == "hold" || a.Step == "wait") {
		return nil, nil, s, fmt.Errorf("node %s: step %s is not for child nodes: %w", parent.Label(), a.Step, driver.ErrInvalid)
	}
	if !ok {
		if s, ok = plan.Named(hw, n, a.Interface, a.Step); !ok {
			return nil, nil, s, fmt.Errorf("child node %s does not support step %s.%s: %w", n.Label(), a.Interface, a.Step, driver.ErrInvalid)
		}
	}
	if s.ReplacesSecrets {
		return nil, nil, s, fmt.Errorf("node %s: step %s.%s gives a BMC another password, and is not for child nodes: send it to node %s itself: %w",
			parent.Label(), a.Interface, a.Step, n.Label(), driver.ErrInvalid)
	}
	return n, hw, s, nil
}

// judgeChildren says what speaks against a step on child nodes of a flow that is not under way: nothing of the flow runs
// when one of the children cannot do its part.
func (c *Catalog) judgeChildren(f driver.Flows, parent *node.Document, a driver.AskedStep) error {
	if !a.OnChildren {
		return nil
	}
	if len(a.Children) == 0 {
		return fmt.Errorf("node %s: step %s.%s is to run on child nodes, and none is named: %w", parent.Label(), a.Interface, a.Step, driver.ErrInvalid)
	}
	for _, id := range a.Children {
		n, _, s, err := c.childStep(parent, a, id)
		if err != nil {
			return err
		}
		s.Args = a.Args
		if err := plan.Fits(f, n, s); err != nil {
			return fmt.Errorf("child node %s: %w", n.Label(), err)
		}
	}
	return nil
}

// childFence is the parent's fence, and the child is one that may be touched: it has no work of its own, is not
// in maintenance, and is not protected.
type childFence struct {
	driver.Fence
	c *Catalog
	n *node.Document
}

func (f childFence) Check() error {
	if err := f.Fence.Check(); err != nil {
		return err
	}
	if w := f.c.cfg.Documents.Work(f.n.UUID); w != nil && w.Doc.Open() {
		return fmt.Errorf("child node %s is locked: it is doing %q, work %s; ask again when that is over", f.n.Label(), w.Doc.Verb, w.Doc.ID)
	}
	switch now := f.c.cfg.Documents.Node(f.n.UUID); {
	case now == nil:
		return fmt.Errorf("child node %s is there no more", f.n.Label())
	case now.Protected:
		return fmt.Errorf("child node %s is protected: nothing more was asked of its machine", f.n.Label())
	case node.Attended(now.Maintenance, now.Fault):
		return fmt.Errorf("child node %s is in maintenance mode: nothing more was asked of its machine; end that, and ask again", f.n.Label())
	}
	return nil
}

// childRecord keeps a child's handle within that of its parent's step, and what was read
// from the child's machine apart from what was read from the parent's.
type childRecord struct {
	driver.Recorder
	child    string // its UUID
	h        *family
	observed hardware.Observation
}

// AgentGone implements driver.Recorder. The agent that is known is the parent's, which runs on.
func (*childRecord) AgentGone() {}

// Observe implements driver.Recorder.
func (r *childRecord) Observe(o hardware.Observation) { r.observed.Merge(o) }

// Busy implements driver.Recorder.
func (r *childRecord) Busy(far string) { r.ChildBusy(r.child, far) }

// Handle implements driver.Recorder.
func (r *childRecord) Handle() json.RawMessage { return r.h.Handle }

// SaveHandle implements driver.Recorder.
func (r *childRecord) SaveHandle(ctx context.Context, handle any) error {
	raw, err := json.Marshal(handle)
	if err != nil {
		return err
	}
	r.h.Handle = raw
	return r.Recorder.SaveHandle(ctx, r.h)
}
