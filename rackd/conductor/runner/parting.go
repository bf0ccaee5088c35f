package runner

import (
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
)

// partingOf is how the failure l leaves the machine of r's flow (docs/flows.md). Power is left alone where this flow has not booted
// the machine, and while its BMC is at work.
func (r *Runner) partingOf(l *work.Leaving) (p flow.Parting) {
	if r.task == nil {
		return p
	}
	p.CleanUp = r.hasBooted() || r.hasReadied()
	if r.busyWith() != nil {
		p.CleanUp = p.CleanUp && !flow.BootsFromMedium(r.task)
		return p
	}
	p.Instance = flow.TakesBackInstance(&r.doc, r.task)
	if !r.hasBooted() && !p.Instance {
		return p
	}
	switch l.State {
	case provision.DeployFail, // a half-written disk must not boot
		provision.CleanFail, provision.InspectFail, provision.RescueFail:
		p.Off = !r.task.Node.DisablePowerOff
		p.Reset = r.task.Node.DisablePowerOff && (l.Aborted || l.Late || !r.hasBooted()) // the agent may be at work, or the instance run
	case provision.ServiceFail: // an operator is to look at it, in the ramdisk where that needs no medium
		p.Off = flow.BootsFromMedium(r.task) && !r.task.Node.DisablePowerOff
	}
	return p
}
