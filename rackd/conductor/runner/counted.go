package runner

import (
	"context"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A reset beside a flow in the ramdisk is not seen in between, so its boot is counted before it. The checkpoint keeps the boot and the
// agent of before: where there was no reset, that agent works on, and the next owner takes the count back.

// resetRamdisk runs a step that resets the machine, which is not seen to be off in between: the boot is counted before. A
// reset that has not happened takes the count back, for the agent of before works on.
func (r *Runner) resetRamdisk(ctx context.Context, s flow.Step) error {
	r.mu.Lock()
	boot, agent := r.boots, r.agent
	r.mu.Unlock()
	r.doc.Checkpoint.Errand.Before = r.keptOf(boot, agent)
	r.AgentGone()
	if err := r.save(ctx); err != nil {
		return err
	}
	err := r.runErrandStep(ctx, s)
	if flow.NotReset(err) {
		r.mu.Lock()
		r.backTo(boot, agent)
		r.mu.Unlock()
	}
	return err
}

// keptOf is what the checkpoint keeps of a boot and its agent; nil of a boot whose agent cannot be asked.
func (r *Runner) keptOf(boot work.Boot, agent *work.Agent) *work.Before {
	if agent == nil || agent.URL == "" {
		return nil
	}
	before := &work.Before{Boot: boot, Agent: *agent}
	if key := r.deps.Keys.Of(r.node.Group); key != nil {
		was := r.as(before)
		was.SignAgent(key)
	}
	return before
}

// as returns the work's document as it was with before. Both share the agent.
func (r *Runner) as(before *work.Before) work.Document {
	was := r.doc
	was.Checkpoint.Boot, was.Checkpoint.Agent = before.Boot, &before.Agent
	return was
}

// backTo takes a count back. r.mu is held.
func (r *Runner) backTo(boot work.Boot, agent *work.Agent) {
	r.boots.Number, r.boots.Addresses, r.agent = boot.Number, boot.Addresses, agent
}

// resetShowsWithin is how long an agent may still answer whose machine was told to reset, where the machine's power tells nothing.
const resetShowsWithin = 10 * time.Second

// agentOfBefore asks the agent that ran before a reset was counted whether it is still there. Its certificate is that of one start of
// the agent, so that its answer says: the machine has not been reset. Then the count is taken back, and its URL is returned.
func (r *Runner) agentOfBefore(ctx context.Context) (url string) {
	before := r.doc.Checkpoint.Errand.Before
	if before == nil {
		return ""
	}
	was, counted := r.as(before), r.Boot().Number
	if !r.deps.Secrets.Pinned(r.node, &was) {
		return ""
	}
	if !r.task.Hardware.Can(driver.PowerOff) && driver.Pause(ctx, resetShowsWithin) != nil {
		return ""
	}
	if alive, certain := r.lives(before.Agent); !alive || !certain {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent != nil || r.boots.Number != counted { // an agent of the boot that was counted has called meanwhile
		return ""
	}
	agent := before.Agent
	r.backTo(before.Boot, &agent)
	r.log.Info("a reset that was counted has not happened: the agent of before works on", "agent", agent.URL, "boot", before.Boot.Number)
	return agent.URL
}
