package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/smbios"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A request may change driver_info in the middle of a flow, so that it leads to another machine's BMC. The checkpoint keeps the way
// by which the flow began. By another way nothing is written until the BMC there has told that it is that of the same machine.

// seeWay compares the way to the BMC with that of the flow's beginning, which an older rackd has not kept. A verification is of
// whatever driver_info says.
func (r *Runner) seeWay() {
	way, cp := driver.WayToBMC(r.task.Node), &r.doc.Checkpoint
	if cp.Way == "" || r.doc.Verb == work.Manage {
		cp.Way = way
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strayed = cp.Way != way
}

// proveWay returns why nothing may be written to the machine by the way that driver_info has now; nil: it is the flow's own machine.
// While the BMC there is silent the error is driver.ErrAwaited.
func (r *Runner) proveWay(ctx context.Context) error {
	r.mu.Lock()
	strayed, agent := r.strayed, r.boots.System
	known := []account{{r.boots.BMC, "the BMC of before"}, {agent, "the ramdisk's agent"}}
	r.mu.Unlock()
	if !strayed {
		return nil
	}
	if r.doc.Verb != work.Inspect && r.doc.Flow() != work.Inspect {
		known = append(known, r.inventorySays())
	}
	told, err := r.identityOf(ctx, r.task.Node, r.task.Hardware)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, driver.ErrUnsupported):
		told = smbios.System{}
	case errors.Is(err, driver.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w, and the BMC there does not answer: %w: %w", r.otherWay(), err, driver.ErrAwaited)
	case err != nil:
		return fmt.Errorf("%w, and the BMC there does not tell which machine it belongs to: %w", r.otherWay(), err)
	}
	now, same := account{told.Telling(), "the BMC there"}, false
	for _, a := range known {
		if now.Conflicts(a.System) {
			return fmt.Errorf("%w, and it is another machine's: %s says %v, %s says %v", r.otherWay(), a.from, a.System, now.from, now.System)
		}
		same = same || now.Matches(a.System)
	}
	if !same {
		return fmt.Errorf("%w, and nothing shows that it is the same machine's: the BMC there says %v", r.otherWay(), now.System)
	}
	r.mu.Lock()
	r.boots.BMC, r.answeredBMC, r.strayed = now.System, true, false
	r.mu.Unlock()
	r.doc.Checkpoint.Way = driver.WayToBMC(r.task.Node)
	r.log.Info("driver_info leads to the machine's BMC by another way", "bmc", now.System.String())
	return nil
}

// otherWay begins the errors of proveWay.
func (r *Runner) otherWay() error {
	return fmt.Errorf("node %s: driver_info was changed since this %s began, so that it leads to another BMC. Nothing is written by way of that BMC: put the former address back, or end this work and look at both machines",
		r.node.Label(), r.doc.Flow())
}
