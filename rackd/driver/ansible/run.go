package ansible

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
)

const (
	// lookEvery is how often the step looks at its playbook.
	lookEvery = time.Second
	// most is how many playbooks one rackd runs at once, and attempts how often a deploy begins one.
	most     = 16
	attempts = 3
	// sshWithin is how long the ramdisk's SSH server may take to come up after the agent.
	sshWithin = time.Minute
)

// handle is that of the step.
type handle struct {
	// Attempt counts the playbooks that have begun; Running: the newest may run, or have run in part.
	Attempt int  `json:"attempt"`
	Running bool `json:"running,omitempty"`
	// Ended: the newest has ended well. Another rackd could not see that any more.
	Ended bool `json:"ended,omitempty"`
	// Boot is the handle of the ramdisk's boot before another attempt.
	Boot json.RawMessage `json:"boot,omitempty"`
	// Since is when the step began to wait for the SSH server.
	Since time.Time `json:"since,omitzero"`
}

// WriteImage implements direct.Writer: it runs the playbook. A rackd may find one of another rackd, or of its own life before.
// Then it has the machine boot its ramdisk again, which ends whatever that playbook has left there. After that it begins once more.
func (p *Plays) WriteImage(ctx context.Context, t *driver.Task, order direct.Order) (agentapi.PrepareImageResult, driver.Outcome, error) {
	out, err := p.run(ctx, t, order)
	return agentapi.PrepareImageResult{}, out, err // the agent has written nothing
}

func (p *Plays) run(ctx context.Context, t *driver.Task, order direct.Order) (driver.Outcome, error) {
	var h handle
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the step's handle %q cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	if h.Ended {
		return driver.Done(), nil
	}
	switch one := p.of(t.WorkID); {
	case one == nil:
	case !one.killed():
		return p.follow(ctx, t, &h, one)
	default: // this rackd had lost the node, and has it again
		if err := one.await(ctx); err != nil {
			return driver.Outcome{}, err
		}
		p.forget(t.WorkID)
	}
	if h.Running {
		if out, ready, err := p.again(ctx, t, &h); err != nil || !ready {
			return out, err
		}
	}
	if p.full() {
		t.Record.Phase("playbook", fmt.Sprintf("waits for one of the %d that this rackd runs", most))
		return driver.Wait(2 * lookEvery), nil
	}
	served, err := order.Prepare(ctx)
	if err != nil {
		return driver.Outcome{}, err
	}
	host := t.Agent.Host()
	if listens, err := p.listens(ctx, t, &h, host); err != nil || !listens {
		return driver.Wait(2 * lookEvery), err
	}
	return p.begin(ctx, t, &h, host, served)
}

// again boots the ramdisk once more where a playbook was lost; ready is true once its agent has called.
func (p *Plays) again(ctx context.Context, t *driver.Task, h *handle) (out driver.Outcome, ready bool, err error) {
	if h.Attempt >= attempts {
		return out, false, fmt.Errorf("node %s: its playbook was lost %d times, because its rackd has gone or the machine was restarted: look at both, then deploy the node again", t.Node.Label(), attempts)
	}
	if h.Boot == nil {
		if t.HandsOff() {
			return driver.Wait(lookEvery), false, nil
		}
		t.Record.Phase("playbook lost", "the rackd that ran it has gone, or the machine was restarted: it boots its ramdisk again, and the playbook begins once more")
	}
	booting := *t
	booting.Record = driver.Part{Recorder: t.Record, Kept: &h.Boot, Save: func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }}
	out, err = p.set.Bringup.Ramdisk(ctx, &booting)
	if _, waits := out.Waiting(); err != nil || waits {
		return out, false, err
	}
	h.Running, h.Boot, h.Since = false, nil, time.Time{}
	return out, true, t.Record.SaveHandle(ctx, h)
}

// listens reports whether the ramdisk takes SSH connections.
func (p *Plays) listens(ctx context.Context, t *driver.Task, h *handle, host string) (bool, error) {
	dial, cancel := context.WithTimeout(ctx, p.answersWithin)
	defer cancel()
	c, err := new(net.Dialer).DialContext(dial, "tcp", net.JoinHostPort(host, strconv.Itoa(p.port)))
	if err == nil {
		c.Close()
		return true, nil
	}
	if h.Since.IsZero() {
		h.Since = time.Now().UTC()
		return false, t.Record.SaveHandle(ctx, h)
	}
	if t.Since(h.Since) > sshWithin {
		return false, fmt.Errorf("node %s: its ramdisk at %s takes no SSH connection (%w). rackd's own has neither an SSH server for deploys nor Python: name one that has both in driver_info deploy_kernel and deploy_ramdisk",
			t.Node.Label(), host, err)
	}
	return false, nil
}

// begin starts the playbook. The checkpoint says so before.
func (p *Plays) begin(ctx context.Context, t *driver.Task, h *handle, host string, served driver.DiskImage) (driver.Outcome, error) {
	where, err := p.filesOf(t.Node)
	if err != nil {
		return driver.Outcome{}, err
	}
	files, err := newPlace()
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: make a folder for the playbook's files: %w", t.Node.Label(), err)
	}
	args, err := write(ctx, t, files.dir, at{host, p.port}, served)
	if err == nil {
		h.Running, h.Attempt = true, h.Attempt+1
		err = t.Record.SaveHandle(ctx, h)
	}
	if err == nil {
		err = t.Fence.Check()
	}
	var one *play
	if err == nil {
		one, err = p.start(t.Fence, files, where, args)
	}
	if err != nil {
		return driver.Outcome{}, errors.Join(err, files.remove())
	}
	one.host = host
	p.mu.Lock()
	p.open[t.WorkID] = one
	p.mu.Unlock()
	t.Record.Phase("playbook", fmt.Sprintf("begins at %s, attempt %d", host, h.Attempt))
	return driver.Wait(lookEvery), nil
}

// follow looks at the playbook that runs. Each task that begins moves the deadline, if the agent still answers.
func (p *Plays) follow(ctx context.Context, t *driver.Task, h *handle, one *play) (driver.Outcome, error) {
	tasks, ended, err := one.look(t.Fence)
	for _, task := range tasks {
		t.Record.Phase("task: "+cut(task, 80), "")
	}
	if !ended {
		if err := t.Fence.Check(); err != nil {
			if !errors.Is(err, driver.ErrContinued) {
				one.kill(err)
			}
			return driver.Outcome{}, err
		}
		if t.Agent.Host() != one.host { // a request beside the flow has switched it
			one.kill(errors.New("the machine was started again"))
			return driver.Wait(lookEvery), nil
		}
		if len(tasks) > 0 {
			if _, err := t.Agent.Commands(ctx); err != nil && !errors.Is(err, driver.ErrUnreachable) {
				return driver.Outcome{}, err
			}
		}
		return driver.Wait(lookEvery), nil
	}
	p.forget(t.WorkID)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %w", t.Node.Label(), err)
	}
	t.Record.Phase("playbook ended", "well")
	h.Ended = true
	return driver.Done(), t.Record.SaveHandle(ctx, h)
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

// of is the playbook of a work; nil: none.
func (p *Plays) of(work string) *play {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[work]
}

func (p *Plays) forget(work string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, work)
}

// full reports whether others have to end first. Playbooks that ended without their step are forgotten.
func (p *Plays) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for work, one := range p.open {
		select {
		case <-one.ended:
			delete(p.open, work)
		default:
		}
	}
	return len(p.open) >= most
}
