package redfish

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// Errand is an order of a vendor's that a BMC makes a task of, carried out now or when the machine restarts. The step
// restarts it where the task waits for that. The order is saved before it is given, and is given once.
type Errand struct {
	*Driver
	Bringup bringup.Settings
	// Doing is what the order is for, as in "import the configuration".
	Doing string
	// Give gives the order and returns the path of its task. It reads what it needs first: its first write is the order.
	// save is called right before that.
	Give func(ctx context.Context, t *Turn, save func() error) (job string, err error)
	// Ended judges a task that has ended well; nil: that is enough.
	Ended func(t *Turn, job string) error
}

// onErrand is the handle of a step with an Errand.
type onErrand struct {
	ordered
	Job string `json:"job,omitempty"`
	restored
}

// Run gives the order, or brings it forward by one look.
func (e Errand) Run(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var h onErrand
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: %s: the handle %q of the step cannot be read: %w", t.Node.Label(), e.Doing, raw, err)
		}
	}
	is, err := e.advance(ctx, t, &h)
	if err != nil {
		return driver.Outcome{}, err
	}
	if is == done {
		return driver.Done(), h.restore(ctx, t, e.Bringup)
	}
	return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
}

func (e Errand) advance(ctx context.Context, t *driver.Task, h *onErrand) (progress, error) {
	h.claims = e.claims(t.Node)
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }
	if err := h.bring(ctx, t, e.Bringup, save); err != nil {
		return running, err
	}
	if h.pending() {
		return running, nil
	}
	if h.Job != "" {
		switch is, err := e.job(ctx, t, e.Doing, h.Job, &h.ordered); {
		case err != nil || is == running:
			return running, err
		case is == forgotten:
			return running, fmt.Errorf("node %s: %s: the BMC no longer knows its task %s, and does not say how it ended: look at its log", t.Node.Label(), e.Doing, h.Job)
		case is == staged:
			if err := h.note(ctx, t); err != nil {
				return running, err
			}
			h.need(t, e.Doing+": the BMC does it when the machine restarts: "+h.Far)
			return running, nil
		}
		if e.Ended == nil {
			return done, nil
		}
		return done, e.Turn(ctx, nil, t.Node, e.Doing, func(turn *Turn) error { return e.Ended(turn, h.Job) })
	}
	if h.Asked {
		return running, e.lookBack(ctx, t, h)
	}
	code := 0
	err := e.pool.with(ctx, t.Fence, t.Node, e.Doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		h.Job, err = e.Give(ctx, &Turn{b, a, c, s}, func() error {
			h.about(c)
			return save(ctx)
		})
		code = status(err)
		h.claims.take(h.Job)
		return err
	})
	if !h.Asked {
		return running, err // nothing was ordered
	}
	taken, err := h.outcome(e.Doing, code, err)
	if err != nil {
		if !taken {
			if saved := save(ctx); saved != nil {
				return running, saved
			}
		}
		return running, err
	}
	t.Record.Busy(e.Doing)
	return running, nil
}

// lookBack looks for the task of an order whose answer was lost: the only one that is new.
func (e Errand) lookBack(ctx context.Context, t *driver.Task, h *onErrand) error {
	var fresh []string
	err := e.pool.with(ctx, nil, t.Node, e.Doing, func(_ *session, _ account, c *gofish.APIClient) error {
		fresh = h.fresh(c)
		return nil
	})
	if err != nil {
		return err
	}
	if len(fresh) == 1 {
		h.Job = fresh[0]
		h.claims.take(h.Job)
		return nil
	}
	return h.look(t, e.Doing, "nothing shows its effect", fresh)
}
