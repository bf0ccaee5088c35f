package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
			h.Started, h.Theirs = false, ""
			t.Record.Phase("agent", "it has rebooted; its command is started again")
		}
	}
	if !known {
		// Saved first: a successor starts the same id, and the agent answers with
		// the command that is already there.
		if err := o.save(); err != nil {
			return cmd, false, err
		}
		params, err := o.params()
		if err != nil {
			return cmd, false, err
		}
		if cmd, err = t.Agent.Start(ctx, t.Fence, h.ID, o.name, params); err != nil {
			return cmd, false, patience(err)
		}
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

// patience makes silence no error.
func patience(err error) error {
	if errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced) {
		return nil
	}
	return err
}
