package runner

import (
	"context"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// listened is an agent whose answers count as signs of life: it may know only rackds that are
// dead by now, and send no heartbeats.
type listened struct {
	driver.Agent
	r *Runner
}

// Start implements driver.Agent.
func (a listened) Start(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	c, err := a.Agent.Start(ctx, f, id, name, params)
	a.fares(c, err)
	return c, err
}

// Call implements driver.Agent.
func (a listened) Call(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	c, err := a.Agent.Call(ctx, f, id, name, params)
	a.fares(c, err)
	return c, err
}

// Command implements driver.Agent.
func (a listened) Command(ctx context.Context, id string) (agentapi.Command, bool, error) {
	c, ok, err := a.Agent.Command(ctx, id)
	a.fares(c, err)
	return c, ok, err
}

// Commands implements driver.Agent.
func (a listened) Commands(ctx context.Context) ([]agentapi.Command, error) {
	list, err := a.Agent.Commands(ctx)
	if err == nil {
		a.r.mu.Lock()
		a.r.answers()
		a.r.mu.Unlock()
	}
	return list, err
}

// fares takes in an answer of the agent about a command.
func (a listened) fares(c agentapi.Command, err error) {
	if err != nil {
		return
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if c.Status != agentapi.CommandRunning || c.Progress == nil || a.r.moved(c.ID, c.Progress) {
		a.r.answers()
	}
}

// answers notes that the agent has answered, or that its command has gone on: that is what moves a
// deadline. A heartbeat alone does not, for an agent that calls and cannot be called, or whose
// command hangs, would hold its node for ever. r.mu is held.
func (r *Runner) answers() { r.replied, r.answered = true, time.Now() }

// moved reports whether a command that tells its progress has gone on since it was last
// looked at. r.mu is held.
func (r *Runner) moved(id string, p *agentapi.Progress) bool {
	if r.commandAt.id == id && r.commandAt.done == p.DoneBytes {
		return false
	}
	r.commandAt.id, r.commandAt.done = id, p.DoneBytes
	return true
}
