package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// sleep waits for a heartbeat, for poll, or for the deadline, which is an error.
func (r *Runner) sleep(ctx context.Context, s flow.Step, poll time.Duration) error {
	var timer <-chan time.Time
	if poll > 0 {
		t := time.NewTimer(poll)
		defer t.Stop()
		timer = t.C
	}
	for {
		if err := errors.Join(r.keepTime(ctx), r.tellAgain(ctx)); err != nil {
			return err
		}
		left := time.Until(r.doc.Checkpoint.Deadline)
		if r.doc.Checkpoint.Deadline.IsZero() || r.doc.Checkpoint.Parked.Is() {
			left = tellEvery // a hold has no end of its own, and neither has a flow in maintenance
		}
		if left <= 0 {
			return fmt.Errorf("step %s: %w", s.ID(), r.late(s))
		}
		switch r.park(ctx, timer, left) {
		case byEnd:
			return ctx.Err()
		case byPoll:
			return nil
		case byNudge:
			if err := errors.Join(r.flush(ctx), r.fate()); err != nil {
				return err
			}
			r.mu.Lock()
			beat := r.heartbeat
			r.mu.Unlock()
			if beat {
				return nil
			}
		}
	}
}

// What ends a pause of a runner.
type waker int

const (
	byEnd   waker = iota // the context's
	byPoll               // it is time to look again
	byLimit              // the time that was given is over
	byNudge
)

// park waits without holding the turn.
func (r *Runner) park(ctx context.Context, poll <-chan time.Time, limit time.Duration) waker {
	end := time.NewTimer(limit)
	defer end.Stop()
	r.parked = true
	r.turn.Unlock()
	defer func() {
		r.turn.Lock()
		r.parked = false
	}()
	select {
	case <-ctx.Done():
		return byEnd
	case <-poll:
		return byPoll
	case <-end.C:
		return byLimit
	case <-r.woken:
		return byNudge
	}
}

// lateError is the error of a step that has not ended by its deadline.
type lateError struct{ error }

func (r *Runner) late(s flow.Step) error { return lateError{r.timedOut(s)} }

// timedOut tells people why s has not ended by its deadline.
func (r *Runner) timedOut(s flow.Step) error {
	limit := r.limit().Round(time.Second)
	if r.Installs() {
		return fmt.Errorf("timed out: the installer did not report within %s (state %q). Look at the machine's console: does it load its kickstart, does it reach this rackd? --deadline of rackd gives slow installers more time", limit, r.doc.State)
	}
	if r.doc.Checkpoint.Agent == nil && r.task != nil && r.task.Facts[driver.FactBoot] == driver.BootRamdisk {
		return fmt.Errorf("timed out: the agent in the ramdisk did not call within %s (state %q). %sLook at the machine's console: does the machine get a DHCP offer, does it boot the ramdisk, does it reach this rackd?", limit, r.doc.State, r.unreadMedium())
	}
	r.mu.Lock()
	agent, answered := r.agent, r.answered
	r.mu.Unlock()
	if agent == nil || agent.URL == "" {
		return fmt.Errorf("timed out: step %s was not done within %s (state %q)", s.ID(), limit, r.doc.State)
	}
	last := "has not answered this rackd"
	if !answered.IsZero() {
		last = fmt.Sprintf("last answered this rackd, or made progress, %s ago", time.Since(answered).Round(time.Second))
	}
	return fmt.Errorf("timed out: step %s: the agent at %s %s. The deadline of %s (state %q) counts from its last answer, not from its last heartbeat, which came %s ago. Check that this rackd reaches that address. If it does, the command hangs: look at the machine's console",
		s.ID(), agent.URL, last, limit, r.doc.State, time.Since(agent.LastSeen).Round(time.Second))
}
