package runner

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
)

// abortsNow reports whether a flow that is to end after its step ends before step s goes on:
// s has not begun, may be cut short, or has failed and waits for the end of the maintenance.
func (r *Runner) abortsNow(s flow.Step) error {
	begun := r.doc.Checkpoint.Step == s.ID()
	switch {
	case !r.doc.Args.AbortAfter || r.doc.Verb == work.Abort:
		return nil
	case !begun:
		return fmt.Errorf("%w before step %s", flow.ErrAborted, s.ID())
	case r.doc.Checkpoint.Phase != work.Ended && (s.Abortable || flow.Stands(&r.doc.Checkpoint)) && r.bmcBusy() == nil:
		return fmt.Errorf("%w during step %s", flow.ErrAborted, s.ID())
	}
	return nil
}

// endsHere reports whether s, of which a part is done, begins no other part: an abort waits for what must not be cut short and for no more.
// In maintenance the next part waits.
func (r *Runner) endsHere(ctx context.Context, s flow.Step) (bool, error) {
	switch {
	case r.doc.Verb == work.Abort:
		return true, nil
	case r.doc.Args.AbortAfter:
		return true, fmt.Errorf("%w during step %s", flow.ErrAborted, s.ID())
	}
	return false, r.untilFree(ctx, s)
}

// leavesErrand says why an abort does nothing more for the errand of the work whose place it has taken; empty: it does. A request for
// power that has begun may have switched off a machine that the abort leaves as it is. So that request is ended.
func (r *Runner) leavesErrand(verb work.Verb) string {
	cp := &r.doc.Checkpoint
	begun := cp.Errand.Phase != "" || r.doc.Lost
	switch {
	case r.doc.Verb != work.Abort:
		return ""
	case !begun:
		return fmt.Sprintf("node %s: the %s was aborted before the request for %s beside it had begun: send that again", r.node.Label(), r.doc.Flow(), asked(verb, &r.doc.Args))
	case verb != work.Power:
		return fmt.Sprintf("node %s: the %s was aborted while the request for %s beside it was under way, which may have been done or not: look at the machine, and send that again if it was not",
			r.node.Label(), r.doc.Flow(), asked(verb, &r.doc.Args))
	case r.hasBooted() && cp.Step == "":
		return fmt.Sprintf("node %s: the %s was aborted while the request for %s beside it was under way: the abort decides about the machine's power",
			r.node.Label(), r.doc.Flow(), asked(verb, &r.doc.Args))
	}
	return ""
}

// asked is an errand in words.
func asked(verb work.Verb, a *work.Args) string {
	if verb == work.Power {
		return fmt.Sprintf("%q", a.PowerTarget)
	}
	return "a change of the machine"
}

// runsInstance brings a machine whose service was aborted back into its instance, as an
// abort that takes effect at once does.
func (r *Runner) runsInstance(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restingDeadline)
	defer cancel()
	for _, s := range flow.DownFromService(r.task) {
		if err := r.runErrandStep(ctx, flow.Step{Step: s}); err != nil {
			return fmt.Errorf("step %s.%s: %w", s.Interface, s.Name, err)
		}
	}
	return nil
}

// tooLate returns how a flow had ended before the request that goes on with it came. What
// an abort has come too late for is said: the node was shown as aborted meanwhile.
func (r *Runner) tooLate(over work.Result) work.Result {
	if (r.doc.Verb == work.Abort || r.doc.Args.AbortAfter) && over.Error == "" {
		over.Error = fmt.Sprintf("The abort came too late: the %s had ended.", r.doc.Flow())
	}
	return over
}
