// Package command runs the commands that a rackd sends, one at a time, and
// remembers what became of them.
//
// It may import protocol/agentapi only. Invariants: a second command while one
// runs is refused (ErrBusy); a request that carries an id which is known starts
// nothing; a command that panics fails, it does not end the agent. What a rackd has sent
// before another took its work is refused once that one has given a command (ErrFenced).
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Errors of Start.
var (
	// ErrBusy means that another command is running.
	ErrBusy = errors.New(agentapi.Busy)
	// ErrUnknown means that there is no command of that name.
	ErrUnknown = errors.New("unknown command")
	// ErrConflict means that the request's id belongs to another command.
	ErrConflict = errors.New("id is in use by another command")
	// ErrFenced means that another rackd has taken the work since the command was sent.
	ErrFenced = errors.New("the command is of a rackd that has lost the work")
)

// Call is what a command is given.
type Call struct {
	ID     string // of the command, unique in this boot
	Params json.RawMessage
	// Report takes the progress of a long write; it never blocks for long.
	Report func(agentapi.Progress)
	// From is the address of who gave the command.
	From netip.Addr
}

// Func does the work of a command. The result is marshalled to JSON; a string
// becomes {"result": …}, as ironic-python-agent does.
type Func func(ctx context.Context, call Call) (any, error)

// Spec is one command there is.
type Spec struct {
	Name string
	// Async commands answer at once and run on.
	Async bool
	Run   Func
}

// Faulter is an error that knows its name in the agent's API.
type Faulter interface {
	error
	FaultType() string
}

// keep bounds how many finished commands are remembered.
const keep = 100

// Runner runs commands. Safe for concurrent use.
type Runner struct {
	log   *slog.Logger
	specs map[string]Spec

	mu   sync.Mutex
	runs []*run
	// epochs are the highest that were seen, by work.
	epochs map[string]uint64
	// changed is closed and replaced whenever a command starts or ends.
	changed chan struct{}
	closed  bool
	wg      sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

type run struct {
	agentapi.Command
	done chan struct{}
}

// NewRunner knows the given commands. Close ends it.
func NewRunner(log *slog.Logger, specs ...Spec) *Runner {
	r := &Runner{log: log, specs: map[string]Spec{}, epochs: map[string]uint64{}, changed: make(chan struct{})}
	for _, s := range specs {
		if _, twice := r.specs[s.Name]; twice {
			panic("command: " + s.Name + " is registered twice")
		}
		r.specs[s.Name] = s
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// Close cancels a running command and waits for it.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel(errors.New("the agent is stopping"))
	r.wg.Wait()
}

// Start begins a command, or returns the one that already has the request's id. A
// synchronous command has ended when Start returns.
func (r *Runner) Start(req agentapi.CommandRequest) (agentapi.Command, error) {
	spec, ok := r.specs[req.Name]
	if !ok {
		return agentapi.Command{}, fmt.Errorf("%w %q", ErrUnknown, req.Name)
	}
	c, err := r.begin(spec, req)
	if err != nil || spec.Async {
		return c, err
	}
	return r.Wait(context.Background(), c.ID)
}

func (r *Runner) begin(spec Spec, req agentapi.CommandRequest) (agentapi.Command, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fenced(req); err != nil {
		return agentapi.Command{}, err
	}
	if old := r.find(req.ID); req.ID != "" && old != nil {
		if old.Name != req.Name {
			return agentapi.Command{}, fmt.Errorf("%w: %s is %s, not %s", ErrConflict, req.ID, old.Name, req.Name)
		}
		return old.Command, nil
	}
	if r.closed {
		return agentapi.Command{}, fmt.Errorf("%w: it is stopping", ErrBusy)
	}
	if n := len(r.runs); n > 0 && r.runs[n-1].Status == agentapi.CommandRunning {
		return agentapi.Command{}, fmt.Errorf("%w: command %s (%s) is running", ErrBusy, r.runs[n-1].Name, r.runs[n-1].ID)
	}
	if req.ID == "" {
		req.ID = uuid.NewString()
	}
	c := &run{Command: agentapi.Command{ID: req.ID, Name: req.Name, Status: agentapi.CommandRunning}, done: make(chan struct{})}
	if len(r.runs) == keep {
		r.runs = slices.Delete(r.runs, 0, 1)
	}
	r.runs = append(r.runs, c)
	r.announce()
	r.log.Info("command started", "command", req.Name, "id", req.ID)
	r.wg.Go(func() { r.execute(spec, c, Call{ID: req.ID, Params: req.Params, From: req.From}) })
	return c.Command, nil
}

// fenced refuses a command that was on its way while another rackd took its work. The bus makes epochs of one work grow. mu is held.
func (r *Runner) fenced(req agentapi.CommandRequest) error {
	if req.Work == "" || req.Epoch == 0 {
		return nil // ironic-python-agent's clients say neither
	}
	if seen := r.epochs[req.Work]; req.Epoch < seen {
		r.log.Warn("a late command is refused: another rackd has taken the work", "command", req.Name, "work", req.Work, "epoch", req.Epoch, "now", seen)
		return fmt.Errorf("%w: %s was sent under epoch %d of work %s, and a command under epoch %d has come before it", ErrFenced, req.Name, req.Epoch, req.Work, seen)
	}
	if len(r.epochs) == keep && r.epochs[req.Work] == 0 {
		clear(r.epochs) // one boot has a few works
	}
	r.epochs[req.Work] = req.Epoch
	return nil
}

func (r *Runner) execute(spec Spec, c *run, call Call) {
	call.Report = func(p agentapi.Progress) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.Progress = &p
	}
	result, err := r.guarded(spec, call)
	if err == nil {
		if s, ok := result.(string); ok {
			result = map[string]string{"result": s}
		}
		var raw json.RawMessage
		if raw, err = json.Marshal(result); err == nil {
			r.end(c, agentapi.CommandSucceeded, raw, nil)
			r.log.Info("command succeeded", "command", c.Name, "id", c.ID)
			return
		}
	}
	r.log.Error("command failed", "command", c.Name, "id", c.ID, "error", err)
	r.end(c, agentapi.CommandFailed, nil, describe(c.Name, err))
}

// guarded turns a panic into an error that carries the stack.
func (r *Runner) guarded(spec Spec, call Call) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the agent has a bug, command %s panicked: %v\n%s", spec.Name, p, debug.Stack())
		}
	}()
	return spec.Run(r.ctx, call)
}

// describe names an error for rackd. Details holds the whole sentence, because
// that is what Ironic shows to operators.
func describe(name string, err error) *agentapi.CommandError {
	e := &agentapi.CommandError{Type: "CommandExecutionError", Code: 500, Message: "Command " + name + " failed", Details: err.Error()}
	if f, ok := errors.AsType[Faulter](err); ok {
		e.Type = f.FaultType()
	}
	return e
}

func (r *Runner) end(c *run, s agentapi.CommandStatus, result json.RawMessage, e *agentapi.CommandError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Status, c.Result, c.Error = s, result, e
	close(c.done)
	r.announce()
}

func (r *Runner) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Wait returns a command once it has ended, or as it is when ctx ends. The error
// is ErrUnknown for an id that is not remembered.
func (r *Runner) Wait(ctx context.Context, id string) (agentapi.Command, error) {
	r.mu.Lock()
	c := r.find(id)
	r.mu.Unlock()
	if c == nil {
		return agentapi.Command{}, fmt.Errorf("%w id %q", ErrUnknown, id)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.Command, nil
}

// List returns all remembered commands, oldest first.
func (r *Runner) List() []agentapi.Command {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]agentapi.Command, len(r.runs))
	for i, c := range r.runs {
		out[i] = c.Command
	}
	return out
}

// Newest returns the newest command, nil if there was none, and a channel that is
// closed when a command starts or ends after that.
func (r *Runner) Newest() (*agentapi.Command, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) == 0 {
		return nil, r.changed
	}
	c := r.runs[len(r.runs)-1].Command
	return &c, r.changed
}

func (r *Runner) find(id string) *run {
	for _, c := range r.runs {
		if c.ID == id {
			return c
		}
	}
	return nil
}
