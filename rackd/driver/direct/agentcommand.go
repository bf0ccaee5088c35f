package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// restarts is how often an agent that rebooted gets its command again.
const restarts = 2

// running is the handle of a command of the agent.
type running struct {
	ID string `json:"command"`
	// Theirs is the id that the agent has given to the command, where it keeps none but
	// its own: ironic-python-agent does.
	Theirs string `json:"agents_id,omitempty"`
	// Started: the agent has confirmed the command, so if it no longer knows it,
	// it has rebooted.
	Started  bool `json:"started,omitempty"`
	Restarts int  `json:"restarts,omitempty"`
	// Listed: the agent's commands were looked at before this one was given, and After
	// was the last of them. So who does not know whether it was given finds it.
	Listed bool   `json:"listed,omitempty"`
	After  string `json:"after,omitempty"`
	// Again: the image has arrived damaged once, and was verified in the rack's cache.
	Again bool `json:"again,omitempty"`
}

// order is a command to give to the agent.
type order struct {
	name string
	// params are asked for each time the command is started.
	params func() (any, error)
	// save writes the handle that the command's is part of.
	save func() error
}

// follow brings a long command of the agent forward by one look. The command is
// returned once it has succeeded; ended is false while it runs, or while the agent
// does not answer: the deadline of the state decides how long that may go on.
func follow(ctx context.Context, t *driver.Task, h *running, o order) (cmd agentapi.Command, ended bool, err error) {
	known := false
	if h.Started {
		if cmd, known, err = t.Agent.Command(ctx, cmp.Or(h.Theirs, h.ID)); err != nil {
			return cmd, false, patience(err)
		}
		if !known {
			if h.Restarts == restarts {
				return cmd, false, fmt.Errorf("node %s: the agent has forgotten command %s %d times: the ramdisk reboots or its agent crashes; look at the machine's console",
					t.Node.Label(), h.ID, h.Restarts+1)
			}
			h.Restarts++
			h.Started, h.Theirs, h.Listed = false, "", false
			t.Record.Phase("agent", "it has rebooted; its command is started again")
		}
	}
	if !known && h.Listed { // whoever saved that may have given the command
		if cmd, known, err = given(ctx, t.Agent, h, o.name); err != nil {
			return cmd, false, patience(err)
		}
	}
	if !known {
		if err := h.list(ctx, t.Agent); err != nil {
			return cmd, false, patience(err)
		}
		// Saved first: a successor starts the same id, and the agent answers with
		// the command that is already there, or lists it.
		if err := o.save(); err != nil {
			return cmd, false, err
		}
		params, err := o.params()
		if err != nil {
			return cmd, false, err
		}
		if cmd, err = t.Agent.Start(ctx, t.Fence, h.ID, o.name, params); err != nil {
			// One that was given and whose answer was lost may be what it is busy with.
			if h.Listed && !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced) {
				if there, found, _ := given(ctx, t.Agent, h, o.name); found {
					cmd, err = there, nil
				}
			}
			if err != nil {
				return cmd, false, patience(err)
			}
		}
	}
	if !h.Started {
		h.Started = true
		if cmd.ID != h.ID {
			h.Theirs = cmd.ID
		}
		if err := o.save(); err != nil {
			return cmd, false, err
		}
	}
	if cmd.Progress != nil {
		t.Record.Progress(*cmd.Progress)
	}
	if err := driver.CommandFailure(cmd); err != nil {
		return cmd, false, fmt.Errorf("node %s: %w", t.Node.Label(), err)
	}
	return cmd, cmd.Status == agentapi.CommandSucceeded, nil
}

// list notes where the agent's list of commands ends before ours is given.
func (h *running) list(ctx context.Context, a driver.Agent) error {
	list, err := a.Commands(ctx)
	switch {
	case errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrFenced):
		return err
	case err != nil:
		return nil // it keeps no list; then it knows our ids, or cannot be asked
	}
	h.Listed, h.After = true, ""
	if len(list) > 0 {
		h.After = list[len(list)-1].ID
	}
	return nil
}

// given looks for a command that may have been given to the agent without its id
// having been noted: the first of that name since its list was looked at. Commands are
// given one after the other, so there is no other of that name. An agent that has
// rebooted lists only what it was given since. ironic-python-agent leaves the extension
// out of a name.
func given(ctx context.Context, a driver.Agent, h *running, name string) (agentapi.Command, bool, error) {
	list, err := a.Commands(ctx)
	if err != nil {
		return agentapi.Command{}, false, err
	}
	if i := slices.IndexFunc(list, func(c agentapi.Command) bool { return c.ID == h.After }); i >= 0 {
		list = list[i+1:]
	}
	_, short, _ := strings.Cut(name, ".")
	for _, c := range list {
		if c.Name == name || c.Name == short {
			return c, true, nil
		}
	}
	return agentapi.Command{}, false, nil
}

// patience makes silence no error.
func patience(err error) error {
	if errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced) {
		return nil
	}
	return err
}
