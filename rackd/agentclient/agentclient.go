// Package agentclient is driver.Agent over HTTPS: it sends commands to the agent in
// a machine's ramdisk and asks what became of them.
//
// It may import rackd/driver and protocol. Invariants:
//   - The agent must show the certificate that came with its heartbeat; plain HTTP
//     is refused. The machine's clock does not matter.
//   - The fence is checked right before each POST. Start sends one POST: an agent that keeps no
//     ids of ours, or has started again meanwhile, would begin a second command. Its caller looks
//     before it asks again. Call is for commands that may be repeated.
//   - The agent's token, which travels in the query as in ironic-python-agent, appears in no
//     error. Answers are bounded, redirects are not followed.
package agentclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Config of a client; zero durations mean the defaults.
type Config struct {
	// State returns what is known of the agent now, nil before its first heartbeat.
	// It is called from the client's callers.
	State func() *work.Agent
	// Tokens returns the agent tokens of the node's boot, the likeliest first: there is one for each
	// generation of the group's key, and the agent has one of them.
	Tokens func() []string
	// Timeout bounds one request with its answer; default 60 s.
	Timeout time.Duration
	// Pause is between attempts on an agent that does not answer; default 2 s.
	Pause time.Duration
	// Poll is the longest pause between two questions of Call whether its command has ended; default 1 s.
	// The first is firstPoll, and each is twice as long as the one before: most commands end at once.
	Poll time.Duration
}

// attempts on an agent that does not answer.
const attempts = 3

// firstPoll is Call's first pause.
const firstPoll = 50 * time.Millisecond

// Client is the agent of one node. Safe for concurrent use; it keeps no
// connection open and needs no closing.
type Client struct {
	cfg Config
	fit atomic.Pointer[string] // the token that the agent took last
}

var _ driver.Agent = (*Client)(nil)

// New returns a client; it connects when it is first asked something.
func New(c Config) *Client {
	if c.Timeout <= 0 {
		c.Timeout = 60 * time.Second
	}
	if c.Pause <= 0 {
		c.Pause = 2 * time.Second
	}
	if c.Poll <= 0 {
		c.Poll = time.Second
	}
	return &Client{cfg: c}
}

// Booted reports whether an agent has called since t.
func (c *Client) Booted(since time.Time) bool {
	a := c.cfg.State()
	return a != nil && a.URL != "" && !a.LastSeen.Before(since)
}

// Host implements driver.Agent.
func (c *Client) Host() string {
	a := c.cfg.State()
	if a == nil {
		return ""
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Start begins a command under id, or finds the one that has the id.
func (c *Client) Start(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	return c.start(ctx, f, id, name, params, 1)
}

func (c *Client) start(ctx context.Context, f driver.Fence, id, name string, params any, tries int) (agentapi.Command, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return agentapi.Command{}, fmt.Errorf("agent command %s: its parameters: %w", name, err)
	}
	body, err := json.Marshal(agentapi.CommandRequest{Name: name, Params: raw, ID: id})
	if err != nil {
		return agentapi.Command{}, fmt.Errorf("agent command %s: %w", name, err)
	}
	return c.command(ctx, request{method: http.MethodPost, path: agentapi.CommandsPath, wait: "false", body: body, fence: f, doing: "start " + name}, tries)
}

// Command asks for a command; ok is false when the agent does not know the id.
func (c *Client) Command(ctx context.Context, id string) (cmd agentapi.Command, ok bool, err error) {
	cmd, err = c.command(ctx, request{method: http.MethodGet, path: agentapi.CommandsPath + url.PathEscape(id), doing: "ask for command " + id}, attempts)
	if refused, is := errors.AsType[*refusal](err); is && refused.status == http.StatusNotFound {
		return agentapi.Command{}, false, nil
	}
	return cmd, err == nil, err
}

// Commands lists the agent's commands, in the order in which they were given.
func (c *Client) Commands(ctx context.Context) ([]agentapi.Command, error) {
	body, err := c.insist(ctx, request{method: http.MethodGet, path: agentapi.CommandsPath, doing: "list its commands"}, attempts)
	if err != nil {
		return nil, err
	}
	var answer struct{ Commands commands }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("agent %s: list its commands: the answer is no list of commands: %w", c.where(), err)
	}
	return answer.Commands, nil
}

// maxCommands bounds a list of commands. An agent is given some dozens in one boot.
const maxCommands = 10_000

// commands is a list of at most maxCommands. It takes much more memory than its JSON.
type commands []agentapi.Command

// UnmarshalJSON implements json.Unmarshaler.
func (l *commands) UnmarshalJSON(raw []byte) error {
	if *l = nil; string(raw) == "null" {
		return nil
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := in.Token(); err != nil || begin != json.Delim('[') {
		return fmt.Errorf("want a list (%v)", err)
	}
	for in.More() {
		if len(*l) == maxCommands {
			return fmt.Errorf("it has more than %d of them", maxCommands)
		}
		var c agentapi.Command
		if err := in.Decode(&c); err != nil {
			return err
		}
		*l = append(*l, c)
	}
	return nil
}

// Call starts a command and waits for its end. A command that failed is returned
// with an error that says why.
func (c *Client) Call(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	cmd, err := c.start(ctx, f, id, name, params, attempts)
	if err != nil {
		return cmd, err
	}
	pause := min(firstPoll, c.cfg.Poll)
	tick := time.NewTimer(pause)
	defer tick.Stop()
	for cmd.Status == agentapi.CommandRunning {
		select {
		case <-tick.C:
			pause = min(2*pause, c.cfg.Poll)
			tick.Reset(pause)
		case <-ctx.Done():
			return cmd, fmt.Errorf("agent %s: waiting for command %s: %w", c.where(), name, context.Cause(ctx))
		}
		var known bool
		if cmd, known, err = c.Command(ctx, cmd.ID); err != nil {
			return cmd, err
		} else if !known {
			return cmd, fmt.Errorf("agent %s no longer knows command %s: it has started again: %w", c.where(), name, driver.ErrUnreachable)
		}
	}
	return cmd, driver.CommandFailure(cmd)
}

// command sends a request whose answer is a command.
func (c *Client) command(ctx context.Context, r request, tries int) (cmd agentapi.Command, err error) {
	body, err := c.insist(ctx, r, tries)
	if err != nil {
		return cmd, err
	}
	if err = json.Unmarshal(body, &cmd); err != nil || cmd.ID == "" {
		return cmd, fmt.Errorf("agent %s: %s: the answer is no command (%v)", c.where(), r.doing, err)
	}
	return cmd, nil
}

// insist sends a request up to tries times, while the agent does not answer.
func (c *Client) insist(ctx context.Context, r request, tries int) ([]byte, error) {
	for n := 1; ; n++ {
		body, err := c.send(ctx, r)
		if err == nil || n == tries || !errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil {
			return body, err
		}
		select {
		case <-time.After(c.cfg.Pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// where is the agent's address for messages.
func (c *Client) where() string {
	if a := c.cfg.State(); a != nil && a.URL != "" {
		return a.URL
	}
	return "(not called yet)"
}
