package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// How an agent that has called is asked whether it is still there, when another wants its place.
const (
	rivalTries   = 2
	rivalTimeout = 3 * time.Second // of one try
	rivalPause   = 2 * time.Second // between tries
	// rivalAgain is how soon it is asked again: calls of others must not become a load.
	rivalAgain = 10 * time.Second
)

// challenge is told of another agent with the boot's token (hb) or id (nil: a lookup) while one has
// called that is pinned. That one is asked, beside the flow, whether it is still there. If not,
// the machine has started again by itself, and the other takes its place. If it is,
// two machines run as one node: the work fails, or, for a mere lookup, the history says so. r.mu is held.
func (r *Runner) challenge(hb *agentapi.Heartbeat, from string) error {
	what := refusal.LookupCall
	if hb != nil {
		what = refusal.HeartbeatCall
	}
	if r.askingAgent || r.ctx == nil {
		return refusal.ErrInDoubt
	}
	if hb == nil && !r.livedAt.IsZero() && time.Since(r.livedAt) < rivalAgain {
		r.deps.Conductor.Refused(what, "two agents", "node", r.node.UUID, "from", from)
		return refusal.ErrNoNode
	}
	r.askingAgent = true
	pinned, number := *r.agent, r.boots.Number
	r.besides.Go(func() {
		alive, certain := r.lives(pinned)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.askingAgent = false
		switch {
		case !certain || r.boots.Number != number || r.agent == nil || r.agent.URL != pinned.URL || r.agent.VerifyCA != pinned.VerifyCA:
			return // all that has been decided otherwise
		case alive && hb != nil:
			r.deps.Conductor.Refused(what, "two agents", "node", r.node.UUID, "from", from)
			r.doom(fmt.Errorf("node %s: two agents run at the same time with the token of this boot: one answers at %s, the other called from %s with %s. Look for another machine with the same MAC address, and for strangers on the provisioning network. It is not known what the two did to the disks",
				r.node.Label(), pinned.URL, from, hb.CallbackURL))
		case alive:
			r.livedAt = time.Now()
			r.deps.Conductor.Refused(what, "two agents", "node", r.node.UUID, "from", from)
			r.phase("second agent", fmt.Sprintf("a lookup from %s was refused: the agent of this boot still answers at %s", from, pinned.URL), 1)
		default:
			r.log.Info("the previous agent does not answer: the machine has restarted by itself", "agent", pinned.URL, "from", from)
			r.agent = nil
			clear(r.bootPhases)
			if hb != nil {
				r.pin(hb)
			}
		}
		r.Nudge()
	})
	return refusal.ErrInDoubt
}

// lives asks an agent whether it is still there; certain is false when the runner ended before.
func (r *Runner) lives(a work.Agent) (alive, certain bool) {
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(r.ctx, rivalTimeout)
		alive = r.deps.AgentLives(ctx, a)
		cancel()
		if r.ctx.Err() != nil {
			return false, false
		}
		if alive || try == rivalTries {
			return alive, true
		}
		if driver.Pause(r.ctx, rivalPause) != nil {
			return false, false
		}
	}
}

// doom fails the work for a reason that lies outside its steps. r.mu is held.
func (r *Runner) doom(err error) {
	if r.doomed == nil {
		r.doomed = err
	}
	if r.cutShort != nil {
		r.cutShort(err)
	}
	r.Nudge()
}

// fate is why the work is to fail, nil for nothing.
func (r *Runner) fate() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doomed
}
