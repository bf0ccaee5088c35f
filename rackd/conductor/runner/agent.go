package runner

import (
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// Greet takes note of an agent that looks up its node, and refuses it where it runs on another
// machine than the node's (prove), or while another agent is known. given: it calls from an address that
// the machine is known to have been given, perhaps by this rackd alone, so that the next owner has to be told.
func (r *Runner) Greet(boot work.Boot, q ask.Lookup, given bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.boots.Number != boot.Number {
		return refusal.ErrNoNode // the machine has been booted again meanwhile
	}
	if err := r.prove(q.System, q.From.String()); err != nil {
		return err
	}
	if r.agent != nil && r.agent.URL != "" {
		return r.challenge(nil, q.From.String())
	}
	if r.boots.System.UUID == "" {
		r.boots.System.UUID = q.System.UUID
	}
	if r.boots.System.Serial == "" {
		r.boots.System.Serial = q.System.Serial
	}
	if r.agent == nil {
		r.agent = &work.Agent{}
	}
	r.agent.TokenGiven = true
	if given {
		r.boots, _ = r.boots.WithAddress(q.From)
	}
	return nil
}

// keepWithin bounds how long the call of an agent, or of an installer, waits for a checkpoint. Who is refused calls again in seconds, this
// rackd or another. It is less than ask.HandOnTimeout: a call that another rackd has handed on is answered, too.
const keepWithin = 2 * time.Second

// Beat takes in a heartbeat of an agent whose address fits, and whose token is that of boot. Once it returns nil a successor knows
// where the agent is: after a heartbeat that was taken in, the agent is silent for up to a minute. Else it is refusal.ErrNotKept, and
// what was said counts here all the same.
func (r *Runner) Beat(boot work.Boot, hb ask.Heartbeat) error {
	r.mu.Lock()
	if r.boots.Number != boot.Number {
		r.mu.Unlock()
		return refusal.ErrBadToken // the machine has been booted again meanwhile
	}
	if r.agent == nil {
		r.agent = &work.Agent{TokenGiven: true}
	}
	a := *r.agent
	fresh := a.URL == ""
	if !fresh && (a.URL != hb.CallbackURL || a.VerifyCA != hb.AgentVerifyCA || a.BootID != hb.Heartbeat.BootID) {
		err := r.challenge(&hb.Heartbeat, hb.From.String())
		r.mu.Unlock()
		return err
	}
	r.pin(&hb.Heartbeat)
	r.mu.Unlock()
	if fresh {
		r.log.Info("agent calls", "agent", hb.CallbackURL, "version", hb.AgentVersion)
	}
	r.Nudge()
	return r.keep(boot, &hb.Heartbeat)
}

// keep waits until a checkpoint has the agent of boot that hb is of, or the flow has gone on to another boot.
func (r *Runner) keep(boot work.Boot, hb *agentapi.Heartbeat) error {
	done, next := r.keeps(boot, hb)
	if done {
		return nil // as nearly always, without a timer
	}
	patience := time.NewTimer(keepWithin)
	defer patience.Stop()
	for {
		select {
		case <-next:
		case <-patience.C:
			return refusal.ErrNotKept
		}
		if done, next = r.keeps(boot, hb); done {
			return nil
		}
	}
}

// keeps reports whether keep has nothing to wait for, and what ends when a checkpoint has been written.
func (r *Runner) keeps(boot work.Boot, hb *agentapi.Heartbeat) (done bool, next <-chan struct{}) {
	r.mu.Lock()
	kept, next, gone := r.kept, r.keeping, r.boots.Number != boot.Number
	r.mu.Unlock()
	return gone || kept != nil && kept.URL == hb.CallbackURL && kept.VerifyCA == hb.AgentVerifyCA && kept.BootID == hb.BootID, next
}

// confirmAgent tells agents that call that a checkpoint was written.
func (r *Runner) confirmAgent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = r.doc.Checkpoint.Agent
	close(r.keeping)
	r.keeping = make(chan struct{})
}

// pin takes hb for that of the boot's agent. r.mu is held.
func (r *Runner) pin(hb *agentapi.Heartbeat) {
	next := work.Agent{TokenGiven: true}
	if r.agent != nil {
		next = *r.agent
	}
	next.URL, next.VerifyCA, next.Version, next.BootID, next.LastSeen = hb.CallbackURL, hb.AgentVerifyCA, hb.AgentVersion, hb.BootID, r.tick()
	r.agent, r.heartbeat = &next, true
	if hb.Command != nil && hb.Command.Progress != nil {
		r.progress = hb.Command.Progress
		if hb.Command.Status == agentapi.CommandRunning && r.moved(hb.Command.ID, hb.Command.Progress) {
			r.answers()
		}
	}
}

// TakeInventory takes in an inventory that the ramdisk of boot sends of its own accord.
func (r *Runner) TakeInventory(boot work.Boot, inv *agentapi.Inventory) error {
	r.mu.Lock()
	if r.boots.Number != boot.Number {
		r.mu.Unlock()
		return refusal.ErrNoNode
	}
	r.inspected, r.heartbeat = inv, true
	r.mu.Unlock()
	r.Nudge()
	return nil
}

// Sent is the inventory that the ramdisk has sent of its own accord.
func (r *Runner) Sent() *agentapi.Inventory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inspected
}

// Agent is the newest that is known of the agent.
func (r *Runner) Agent() *work.Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent == nil {
		return nil
	}
	a := *r.agent
	return &a
}

// BootFact is the FactBoot as the running step has it, saved or not.
func (r *Runner) BootFact() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bootFact
}

// Saw takes in what the work's machine was seen to do.
func (r *Runner) Saw(s ask.Sign) {
	r.mu.Lock()
	if s.Leased.IsValid() {
		r.boots, _ = r.boots.WithAddress(s.Leased)
	}
	if s.Phase != "" {
		r.phase(s.Phase, s.Detail, 1)
	}
	r.mu.Unlock()
	r.Nudge()
}
