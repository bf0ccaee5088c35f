package irmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

const (
	// sessionEvery is how often a session is looked at.
	sessionEvery = 10 * time.Second
	// sessionPause is between the end of a session and the next order.
	sessionPause = time.Second
	// sessionShows is for how long an order without an answer may show no session. An iRMC may take 5 minutes to answer one.
	sessionShows = 6 * time.Minute
	// sessionLasts is for how long it may go on, Ironic's default.
	sessionLasts = 30 * time.Minute
)

// session is the handle of an order that begins a session of the eLCM. It is saved before the order, which is given once.
type session struct {
	Asked bool `json:"asked,omitempty"`
	// Others are the sessions that the iRMC listed before; ID is that of the order.
	Others []string  `json:"others,omitempty"`
	ID     string    `json:"session,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Found: the answer to the order was lost, and ID is the session that was new then. Another may have begun it.
	Found bool `json:"found,omitempty"`
	// Ended: the session has ended well.
	Ended bool `json:"ended,omitempty"`
	// Unseen: the answer to the order was lost, and no session shows that the iRMC took it.
	Unseen bool `json:"unseen,omitempty"`
	// Lost is how many orders of this session have left no trace.
	Lost int `json:"lost,omitempty"`
}

// begun: the order may have left.
func (h session) begun() bool { return h.Asked || h.Ended || h.Unseen }

// order is what begins a session.
type order struct {
	doing string
	// profile is emptied in the iRMC's store before the order and after the session.
	profile string
	// give gives the order and returns its session.
	give func(elcm) (session string, err error)
	// done is called when the session has ended well, again until it says that there was nothing left to keep: central is told
	// between two runs. Nil: there is nothing to do.
	done func(elcm) (over bool, err error)
	// looks: an order that is certainly not to be seen is not given again. The caller looks at the machine first.
	looks bool
	// blind: nothing shows afterwards whether the order was carried out, but that its session has ended well.
	blind bool
}

// saver saves a step's handle.
type saver func(context.Context) error

// resume reads what a step has saved.
func resume(t *driver.Task, doing string, into any) error {
	raw := t.Record.Handle()
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("node %s: %s: the handle %q of the step cannot be read: %w", t.Node.Label(), doing, raw, err)
	}
	return nil
}

// session gives an order that begins a session, or brings its session forward by one look. over: it has ended well, or it is Unseen.
// save saves the step's handle, of which h is a part.
func (s *SCCI) session(ctx context.Context, t *driver.Task, h *session, o order, save saver) (over bool, out driver.Outcome, err error) {
	switch {
	case h.Ended, h.Unseen:
		return true, driver.Done(), nil
	case h.ID != "":
		return s.follow(ctx, t, h, o, save)
	case h.Asked:
		out, err = s.lookBack(ctx, t, h, o, save)
		return h.Unseen, out, err
	}
	out, err = s.begin(ctx, t, h, o, save)
	return false, out, err
}

// begin gives the order, once its handle is saved.
func (s *SCCI) begin(ctx context.Context, t *driver.Task, h *session, o order, save saver) (driver.Outcome, error) {
	err := s.elcm(ctx, t.Fence, t.Node, o.doing, func(e elcm) (err error) {
		if err := e.drop(o.profile); err != nil {
			return err
		}
		if h.Others, err = e.sessions(); err != nil {
			return err
		}
		t.Record.Busy(o.doing)
		h.Asked, h.Since = true, time.Now().UTC()
		if err := save(ctx); err != nil {
			return err
		}
		h.ID, err = o.give(e)
		return err
	})
	switch {
	case errors.Is(err, driver.ErrUnknown):
		return driver.Wait(sessionEvery), nil // its session is looked for
	case err != nil && h.Asked && !errors.Is(err, driver.ErrFenced):
		t.Record.Idle()
		h.Asked = false // it was refused, or was not sent
		if errors.Is(err, driver.ErrUnsupported) {
			err = fmt.Errorf("%w. The eLCM of an iRMC needs a licence and its SD card: see whether the iRMC has both", err)
		}
		return driver.Outcome{}, errors.Join(err, save(ctx))
	case err != nil:
		return driver.Outcome{}, err
	case h.ID == "":
		return driver.Wait(sessionEvery), nil
	}
	return driver.Wait(sessionEvery), save(ctx)
}

// lookBack looks for the session of an order whose answer was lost: the only one that is new. One that has ended stays in the list.
func (s *SCCI) lookBack(ctx context.Context, t *driver.Task, h *session, o order, save saver) (driver.Outcome, error) {
	var fresh []string
	err := s.elcm(ctx, nil, t.Node, o.doing, func(e elcm) error {
		now, err := e.sessions()
		slices.Sort(now) // it may list one several times
		fresh = slices.DeleteFunc(slices.Compact(now), func(s string) bool { return slices.Contains(h.Others, s) })
		return err
	})
	switch {
	case away(err):
		return driver.Wait(sessionEvery), nil
	case err != nil:
		return driver.Outcome{}, err
	case len(fresh) == 1:
		h.ID, h.Found = fresh[0], true
		return driver.Wait(sessionEvery), save(ctx)
	case len(fresh) > 1:
		return driver.Outcome{}, fmt.Errorf("node %s: %s: it is not known which of the new sessions %q is that of the order, "+
			"whose answer was lost. Rackd does not repeat it: look at the iRMC's sessions, let them end, then repeat the request",
			t.Node.Label(), o.doing, fresh)
	case t.Since(h.Since) < sessionShows:
		return driver.Wait(sessionEvery), nil
	}
	t.Record.Idle()
	h.Asked = false // the iRMC has not taken it
	h.Unseen = o.looks
	if h.Lost++; h.Lost >= mostLost && !o.looks {
		return driver.Outcome{}, lostOrders(t.Node, o.doing, h.Lost)
	}
	return driver.Wait(sessionEvery), save(ctx)
}

// follow looks at the session.
func (s *SCCI) follow(ctx context.Context, t *driver.Task, h *session, o order, save saver) (over bool, _ driver.Outcome, _ error) {
	var status, log string
	var there bool
	err := s.elcm(ctx, nil, t.Node, o.doing, func(e elcm) (err error) {
		if status, there, err = e.status(h.ID); err != nil || !there {
			return err
		}
		switch status {
		case sessionActivated, sessionRuns:
			return nil
		case sessionEnded:
			if o.blind && h.Found {
				return fmt.Errorf("it is not known whether session %s, which has ended well, is that of the order, whose answer was lost: "+
					"look at its log, then repeat the request", h.ID)
			}
			over = o.done == nil
			if !over {
				over, err = o.done(e)
			}
			return err
		}
		log = e.log(h.ID)
		return nil
	})
	switch running := status == sessionActivated || status == sessionRuns; {
	case away(err) && t.Since(h.Since) < sessionLasts:
		return false, driver.Wait(sessionEvery), nil
	case err != nil && status == sessionEnded && ctx.Err() == nil: // what it has left cannot be used
		t.Record.Idle()
		*h = session{}
		return false, driver.Outcome{}, err
	case err != nil:
		return false, driver.Outcome{}, err
	case !there:
		t.Record.Idle()
		return false, driver.Outcome{}, fmt.Errorf("node %s: %s: the iRMC no longer knows its session %s, and does not say how it ended: "+
			"look at its log", t.Node.Label(), o.doing, h.ID)
	case running && t.Since(h.Since) > sessionLasts: // it may be writing to the machine, which is to keep its power
		return false, driver.Outcome{}, fmt.Errorf("node %s: %s: session %s has been %s for %s: look at the iRMC",
			t.Node.Label(), o.doing, h.ID, status, sessionLasts)
	case running:
		t.Record.Busy(fmt.Sprintf("%s: session %s is %s", o.doing, h.ID, status))
		return false, driver.Wait(sessionEvery), nil
	case status != sessionEnded:
		t.Record.Idle()
		err = fmt.Errorf("node %s: %s: session %s is %q: %s", t.Node.Label(), o.doing, h.ID, status, log)
		*h = session{} // none is at work
		return false, driver.Outcome{}, err
	}
	if !over {
		t.Keep()
		return false, driver.Wait(time.Second), nil
	}
	t.Record.Idle()
	h.Ended = true
	if err := save(ctx); err != nil {
		return false, driver.Outcome{}, err
	}
	// What is left at the iRMC costs room only.
	err = s.elcm(ctx, t.Fence, t.Node, o.doing, func(e elcm) error { return errors.Join(e.forget(h.ID), e.drop(o.profile)) })
	switch {
	case errors.Is(err, driver.ErrFenced):
		return false, driver.Outcome{}, err
	case err != nil:
		t.Record.Phase("left at the iRMC", driver.Unnamed(t.Node, err).Error())
	}
	return true, driver.Done(), nil
}

// mostLost is how often an order is given of which the iRMC shows no trace.
const mostLost = 3

// lostOrders is the error of orders that are lost each time.
func lostOrders(n *node.Document, doing string, count int) error {
	return fmt.Errorf("node %s: %s: the answers to %d orders were lost, and the iRMC shows no session of them: "+
		"look at its sessions and its network, then repeat the request", n.Label(), doing, count)
}

// away: the iRMC cannot answer just now. Its session goes on.
func away(err error) bool {
	return errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced)
}

// powered is the machine's power before a step, and the way back to it.
type powered struct {
	// Noted: WasOff tells the power before.
	Noted  bool            `json:"power_noted,omitempty"`
	WasOff bool            `json:"was_off,omitempty"`
	Boot   json.RawMessage `json:"restart_handle,omitempty"`
}

// note notes the power, once for a step.
func (p *powered) note(ctx context.Context, t *driver.Task) error {
	if p.Noted {
		return nil
	}
	state, err := t.Hardware.Power().PowerState(ctx, t.Node)
	if err != nil {
		return fmt.Errorf("read the power state before: %w", err)
	}
	p.Noted, p.WasOff = true, state == driver.PowerOff
	return nil
}

// failed is the error of a step that ends while no session is at work. A machine that was on is on again: a session before, or the
// step itself, may have switched it off. Where the ramdisk runs, the end of the flow sees to it.
func (p *powered) failed(ctx context.Context, t *driver.Task, b bringup.Settings, err error) error {
	again := errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrFenced)
	if again || p.WasOff || t.HandsOff() || t.Facts[driver.FactBoot] == driver.BootRamdisk {
		return err
	}
	return errors.Join(err, b.Reach(ctx, t, driver.PowerOn))
}

// restore brings the machine back into the state that it had, or into the ramdisk: the iRMC has restarted it, or has left it off.
func (p *powered) restore(ctx context.Context, t *driver.Task, b bringup.Settings, save saver) (driver.Outcome, error) {
	switch {
	case t.Facts[driver.FactBoot] == driver.BootRamdisk:
		part := *t
		part.Record = driver.Part{Recorder: t.Record, Kept: &p.Boot, Save: save}
		return b.Restart(ctx, &part)
	case p.WasOff:
		return driver.Done(), b.Off(ctx, t)
	}
	return driver.Done(), b.Reach(ctx, t, driver.PowerOn)
}
