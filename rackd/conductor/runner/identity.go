package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/smbios"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// How a BMC is asked which machine it is the BMC of. One that does not tell stops nothing.
const (
	identityWithin = 30 * time.Second // of one try
	identityTries  = 2                // for one boot
)

// account is what one source says of the node's machine.
type account struct {
	smbios.System
	from string
}

func (r *Runner) inventorySays() account {
	return account{r.node.Machine, "the node's last inspection"}
}

// contradiction compares what an agent says of its machine (zero: nothing) with what the flow's first
// agent, the BMC and the last inspection say, and these with each other. An inspection is how an
// operator has another machine accepted, so what the one before it found does not count. r.mu is held.
func (r *Runner) contradiction(said smbios.System) error {
	if first := r.boots.System; first.Differs(said) {
		return r.anotherMachine(account{said, "the agent that calls"}, account{first, "the agent that called first in this work"})
	}
	all := []account{{said, "the agent that calls"}, {r.boots.BMC, "the node's BMC"}}
	if r.doc.Verb != work.Inspect {
		all = append(all, r.inventorySays())
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Conflicts(b.System) {
				return r.anotherMachine(a, b)
			}
		}
	}
	return nil
}

func (r *Runner) anotherMachine(a, b account) error {
	return fmt.Errorf("node %s: this is another machine than the node's: %s says %v, %s says %v. If a board was replaced, inspect the node: an inspection accepts the new one. Otherwise check whether a cable or a MAC address has moved, and whether driver_info names the BMC of this machine. If the BMC reports a wrong identity, set redfish_identity=ignore in driver_info",
		r.node.Label(), a.from, a.System, b.from, b.System)
}

// identityFlows may write to a disk, so that they begin on the node's machine only.
var identityFlows = []work.Verb{work.Deploy, work.Rebuild, work.Clean, work.Provide, work.Service, work.Rescue}

// proveBMC fails work whose BMC is that of another machine than the last inspection found, before its
// first step. What the BMC says is kept in the checkpoint: it is asked once in a flow.
func (r *Runner) proveBMC(ctx context.Context) error {
	if !slices.Contains(identityFlows, r.doc.Verb) || !r.node.Machine.Says() {
		return nil
	}
	r.mu.Lock()
	known, strayed := r.boots.BMC.Says(), r.strayed
	r.mu.Unlock()
	if !known && !strayed {
		r.askBMC(ctx, 1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contradiction(smbios.System{})
}

// askBMC reads which machine the BMC is the BMC of. An error is the BMC's silence, which is no contradiction.
func (r *Runner) askBMC(ctx context.Context, tries int) {
	for try := 1; ; try++ {
		told, err := r.identity(ctx)
		if err == nil || errors.Is(err, driver.ErrUnsupported) {
			r.mu.Lock()
			r.boots.BMC, r.answeredBMC = told.Telling(), true
			r.mu.Unlock()
			return
		}
		if ctx.Err() != nil {
			return
		}
		r.log.Warn("the BMC does not tell which machine it belongs to", "error", err)
		if try == tries || driver.Pause(ctx, rivalPause) != nil {
			return
		}
	}
}

func (r *Runner) identity(ctx context.Context) (smbios.System, error) {
	n, err := r.deps.Secrets.Open(r.node)
	if err != nil {
		return smbios.System{}, err
	}
	hw, err := r.deps.Hardware.Resolve(n)
	if err != nil {
		return smbios.System{}, err
	}
	return r.identityOf(ctx, n, hw)
}

// identityOf asks the BMC to which n leads.
func (r *Runner) identityOf(ctx context.Context, n *node.Document, hw *driver.Hardware) (smbios.System, error) {
	ctx, cancel := context.WithTimeout(ctx, identityWithin)
	defer cancel()
	id, err := hw.Management().Identity(ctx, n)
	return smbios.System{UUID: id.UUID, Serial: id.Serial, SKU: id.SKU}, err
}

// prove refuses an agent on another machine than the node's, and fails the work. While the BMC is still
// being asked it is ErrUnproven. r.mu is held.
func (r *Runner) prove(said smbios.System, from string) error {
	if err := r.contradiction(said); err != nil {
		r.doom(err)
		r.deps.Conductor.Refused(refusal.LookupCall, "another machine", "node", r.node.UUID, "from", from, "uuid", said.UUID, "serial", said.Serial)
		return refusal.ErrNoNode
	}
	if !said.Says() || r.boots.BMC.Says() || r.answeredBMC || r.askedInBoot == r.boots.Number && !r.askingBMC {
		return nil
	}
	r.wonder()
	return refusal.ErrUnproven
}

// wonder asks the BMC, beside the flow, which machine it belongs to, unless that is known or being
// asked. r.mu is held.
func (r *Runner) wonder() {
	if r.ctx == nil || r.strayed || r.askingBMC || r.boots.BMC.Says() || r.answeredBMC {
		return
	}
	r.askingBMC, r.askedInBoot = true, r.boots.Number
	r.besides.Go(func() {
		r.askBMC(r.ctx, identityTries)
		r.mu.Lock()
		r.askingBMC = false
		r.mu.Unlock()
		r.Nudge()
	})
}
