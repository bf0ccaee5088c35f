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

// restarts is how often an agent that has started again gets a command again that may be repeated.
const restarts = 2

// running is the handle of a command of the agent.
type running struct {
	ID string `json:"command"`
	// Theirs is the id that the agent has given to the command, where it keeps none but
	// its own: ironic-python-agent does.
	Theirs string `json:"agents_id,omitempty"`
	// Started: the agent has confirmed the command, so if it no longer knows it,
	// it has started again.
	Started  bool `json:"started,omitempty"`
	Restarts int  `json:"restarts,omitempty"`
	// Listed: the agent's commands were looked at before this one was given, and After
	// was the last of them. So a rackd that does not know whether the command was given finds it.
	// An agent that does not list After has started again since.
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
	// mark gives an agent that lists no command a harmless one, which it lists then. nil: the
	// command may be repeated by an agent that has started again, so that the list need not tell that it has.
	mark func() error
}

// sight is what a look at a command of the agent shows.
type sight int

const (
	// unfinished: it runs, or the agent does not answer. The deadline of the state decides how long
	// that may go on.
	unfinished sight = iota
	succeeded
	// gone: the agent had begun it and has started again since. It must not be repeated.
	gone
)

// follow brings a long command of the agent forward by one look. The command is
// returned once it has succeeded.
func follow(ctx context.Context, t *driver.Task, h *running, o order) (cmd agentapi.Command, saw sight, err error) {
	known := false
	if h.Started {
		if cmd, known, err = t.Agent.Command(ctx, cmp.Or(h.Theirs, h.ID)); err != nil {
			return cmd, unfinished, patience(err)
		}
		switch {
		case !known && o.mark != nil:
			return cmd, gone, nil
		case !known:
			if err := h.startAgain(t); err != nil {
				return cmd, unfinished, err
			}
		}
	}
	if !known && h.Listed { // the rackd that saved that may have given the command
		var same bool
		if cmd, known, same, err = given(ctx, t.Agent, h, o.name); err != nil {
			return cmd, unfinished, patience(err)
		}
		if !known && !same && o.mark != nil {
			return cmd, unfinished, fmt.Errorf("node %s: the agent has restarted while rackd gave it the command, so the step may have run. It must not be repeated: look at the machine, then request what is left to do",
				t.Node.Label())
		}
	}
	if !known {
		if cmd, err = h.give(ctx, t, o); err != nil {
			return cmd, unfinished, patience(err)
		}
	}
	if !h.Started {
		h.Started = true
		if cmd.ID != h.ID {
			h.Theirs = cmd.ID
		}
		if err := o.save(); err != nil {
			return cmd, unfinished, err
		}
	}
	if cmd.Progress != nil {
		t.Record.Progress(*cmd.Progress)
	}
	if err := driver.CommandFailure(cmd); err != nil {
		return cmd, unfinished, fmt.Errorf("node %s: %w", t.Node.Label(), err)
	}
	if cmd.Status == agentapi.CommandSucceeded {
		saw = succeeded
	}
	return cmd, saw, nil
}

// startAgain prepares h for a command that the agent has forgotten and is to get again.
func (h *running) startAgain(t *driver.Task) error {
	if h.Restarts == restarts {
		return fmt.Errorf("node %s: the agent has forgotten command %s %d times: the ramdisk reboots or its agent crashes; look at the machine's console",
			t.Node.Label(), h.ID, h.Restarts+1)
	}
	h.Restarts++
	h.Started, h.Theirs, h.Listed, h.After = false, "", false, ""
	t.Record.Phase("agent", "it has rebooted; its command is started again")
	return nil
}

// give gives the command to the agent. Its handle is saved first: a successor starts the same id, and
// the agent answers with the command that is already there, or lists it.
func (h *running) give(ctx context.Context, t *driver.Task, o order) (cmd agentapi.Command, err error) {
	if err := h.list(ctx, t, o); err != nil {
		return cmd, err
	}
	if err := o.save(); err != nil {
		return cmd, err
	}
	params, err := o.params()
	if err != nil {
		return cmd, err
	}
	if cmd, err = t.Agent.Start(ctx, t.Fence, h.ID, o.name, params); err == nil {
		return cmd, nil
	}
	// One that was given and whose answer was lost may be what it is busy with.
	if h.Listed && !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced) {
		if there, found, _, _ := given(ctx, t.Agent, h, o.name); found {
			return there, nil
		}
	}
	return cmd, err
}

// list notes where the agent's list of commands ends before ours is given.
func (h *running) list(ctx context.Context, t *driver.Task, o order) error {
	list, err := t.Agent.Commands(ctx)
	if err == nil && len(list) == 0 && o.mark != nil {
		if err := o.mark(); err != nil {
			return err
		}
		if list, err = t.Agent.Commands(ctx); err == nil && len(list) == 0 {
			err = errors.New("its list of commands stays empty")
		}
	}
	switch {
	case errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrFenced):
		return err
	case err != nil && o.mark != nil:
		return fmt.Errorf("node %s: the agent does not list its commands. Without the list rackd cannot tell after a lost answer whether the step has begun, and this step must not be repeated: %w", t.Node.Label(), err)
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
// given one after the other, so there is no other of that name. same: the list still
// holds the command before, so the agent has not started again; one that has lists only what
// it was given since. ironic-python-agent leaves the extension out of a name.
func given(ctx context.Context, a driver.Agent, h *running, name string) (cmd agentapi.Command, found, same bool, err error) {
	list, err := a.Commands(ctx)
	if err != nil {
		return cmd, false, false, err
	}
	if i := slices.IndexFunc(list, func(c agentapi.Command) bool { return c.ID == h.After }); i >= 0 {
		list, same = list[i+1:], true
	}
	_, short, _ := strings.Cut(name, ".")
	for _, c := range list {
		if c.Name == name || c.Name == short {
			return c, true, same, nil
		}
	}
	return cmd, false, same, nil
}

// patience makes silence no error.
func patience(err error) error {
	if errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced) {
		return nil
	}
	return err
}
