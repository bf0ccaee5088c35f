package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// awaitBMC is the step with which an undeploy begins that has taken the place of a flow while the BMC was at work, writing
// firmware for instance. It looks by that flow's step, which may read and not write, until the BMC has ended: whatever the step
// would order next is not ordered. None of this is a failure of the undeploy.
func (c *Catalog) awaitBMC(d *work.Document) []Step {
	u := d.Checkpoint.Unfinished
	if u == nil {
		return nil
	}
	run := func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		s, watch, err := c.watch(d, u, t)
		if err != nil {
			return driver.Outcome{}, fmt.Errorf("the BMC is at work for step %s of the %s, and this rackd cannot tell how far it is: %w", u.Step, u.Verb, err)
		}
		t.Record.Phase("waits for the BMC", fmt.Sprintf("the machine keeps its power until the BMC has ended its work for step %s of the %s", u.Step, u.Verb))
		out, err := s.Run(ctx, watch)
		if lost := t.Fence.Check(); lost != nil {
			return driver.Outcome{}, lost
		}
		_, waits := out.Waiting() // a part that is to follow at once is not ordered
		switch {
		case err == nil && waits, ctx.Err() != nil, MayPass(err):
			return out, err
		case err != nil && !errors.Is(err, errReadsOnly):
			t.Record.Phase("the BMC's work", fmt.Sprintf("step %s of the %s has failed: %v", u.Step, u.Verb, err))
		}
		t.Record.Idle()
		return driver.Done(), nil
	}
	return []Step{{Own: true, Step: driver.Step{Interface: "conductor", Name: "await_bmc", Kind: driver.Reattachable, Retries: 4, Pause: 5 * time.Second, Run: run}}}
}

// watch returns the step that u tells of, and the task with which it looks and does nothing else.
func (c *Catalog) watch(d *work.Document, u *work.Unfinished, t *driver.Task) (driver.Step, *driver.Task, error) {
	watch := *t
	watch.Facts, watch.Entered, watch.WorkID = maps.Clone(u.Facts), u.Entered, u.Root
	if watch.Facts == nil {
		watch.Facts = map[string]string{}
	}
	watch.Fence, watch.Record = readsOnly{t.Fence}, &watching{Recorder: t.Record, began: u.Handle}
	of := work.Document{ID: u.Root, Node: d.Node, Group: d.Group, Verb: u.Verb, Args: u.Args, Checkpoint: work.Checkpoint{Plan: u.Plan, Index: u.Index, Step: u.Step, Facts: watch.Facts}}
	steps, err := c.Fixed(&of, &watch)
	if err != nil {
		return driver.Step{}, nil, err
	}
	if u.Index >= len(steps) || steps[u.Index].ID() != u.Step {
		return driver.Step{}, nil, fmt.Errorf("the step is a different one now")
	}
	s := steps[u.Index]
	if s.Kind == driver.Neither {
		return driver.Step{}, nil, fmt.Errorf("the step can be neither repeated nor re-attached")
	}
	watch.Args = s.Args
	if seal.SealedArgs(s.Args) {
		key, err := c.cfg.Secrets.KeyFor(d)
		if err == nil {
			watch.Args, err = key.OpenArgs(work.StepLabel(d.Node, u.Root, s.Interface, s.Name), s.Args)
		}
		if err != nil {
			return driver.Step{}, nil, fmt.Errorf("its arguments: %w", err)
		}
	}
	return s.Step, &watch, nil
}

// errReadsOnly is the error of a write by a step that may only look.
var errReadsOnly = fmt.Errorf("the flow of this step is over: %w", driver.ErrFenced)

// readsOnly is a fence that lets nothing pass.
type readsOnly struct{ driver.Fence }

func (readsOnly) Check() error { return errReadsOnly }

// watching gives a step the handle that it had in its own flow, until it saves another. Agents are none of its business.
type watching struct {
	driver.Recorder
	began json.RawMessage
}

// Handle implements driver.Recorder.
func (w *watching) Handle() json.RawMessage {
	if h := w.Recorder.Handle(); h != nil {
		return h
	}
	return w.began
}

// AgentGone implements driver.Recorder.
func (*watching) AgentGone() {}
