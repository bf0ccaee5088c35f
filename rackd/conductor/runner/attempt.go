package runner

import (
	"context"
	"errors"
	"time"

	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// attempt runs s once; it may not outlast the state's deadline. In maintenance the time stands still, and a step
// that is under way does not notice when that begins. So where the deadline ends s in maintenance, s is run again
// with the state's time, unless it must not be repeated.
func (r *Runner) attempt(ctx context.Context, s flow.Step) (driver.Outcome, error) {
	for {
		out, late, err := r.once(ctx, s)
		if !late || s.Kind == driver.Neither || !r.parks() {
			return out, err
		}
		r.grant(r.limit())
		r.log.Info("the step continues after its time limit, because the node is in maintenance", "step", s.ID(), "error", err)
	}
}

// once runs s until the deadline; late: that ended it.
func (r *Runner) once(ctx context.Context, s flow.Step) (out driver.Outcome, late bool, err error) {
	if err := errors.Join(r.Check(), r.fate()); err != nil {
		return driver.Outcome{}, false, err
	}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	r.mu.Lock()
	r.cutShort = cut
	r.mu.Unlock()
	if d := r.doc.Checkpoint.Deadline; !d.IsZero() {
		if p := r.doc.Checkpoint.Parked; p.Is() {
			d = time.Now().Add(p.Left)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d)
		defer cancel()
	}
	if !s.Pure && !s.Pauses() {
		if err := r.proveWay(ctx); err != nil {
			return driver.Outcome{}, false, err
		}
	}
	if s.Interface == "raid" && !s.OnChildren {
		r.task.Facts[driver.FactRAID] = s.Name // the next checkpoint keeps it
	}
	out, err = s.Run(ctx, r.task)
	r.unseen = false
	if late = err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded); late {
		err = errors.Join(r.late(s), err)
	}
	if fate := r.fate(); fate != nil {
		return driver.Outcome{}, false, fate
	}
	return out, late, err
}
