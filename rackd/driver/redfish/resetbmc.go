package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
)

// resettingBMC is the handle of the step that restarts the BMC. It is saved before the order, which is given once.
type resettingBMC struct {
	Asked bool `json:"asked,omitempty"`
	// Was is when the BMC was last reset, as it told before; Session is the session it knew.
	Was     string `json:"was,omitempty"`
	Session string `json:"session,omitempty"`
	Looks   int    `json:"looks,omitempty"`
	// Down: it did not answer after the order.
	Down bool `json:"down,omitempty"`
	// Back: it has restarted, and answers. Another rackd could not see that any more.
	Back bool `json:"back,omitempty"`
}

// bmcRestarts is for how many looks a BMC may take to restart.
const bmcRestarts = 60

// resetBMC restarts the BMC. It is over when the BMC answers again, and shows that it has restarted: it was silent, tells of a
// later reset, or has forgotten its session.
func (m Management) resetBMC(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	return m.ResetBMC(ctx, t, managerReset)
}

// ResetOrder says which action restarts the BMC, and what is sent to it. It only reads.
type ResetOrder func(t *Turn) (target string, body any, err error)

// ResetBMC is a step that restarts the BMC by an action of a vendor's. It is over as reset_bmc is.
func (m Management) ResetBMC(ctx context.Context, t *driver.Task, by ResetOrder) (driver.Outcome, error) {
	const doing = "reset the BMC"
	var h resettingBMC
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of a reset of the BMC cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	if !h.Asked {
		err := m.pool.with(ctx, t.Fence, t.Node, doing, func(b *session, a account, c *gofish.APIClient) error {
			return orderResetBMC(ctx, t, &h, b, a, c, by)
		})
		switch {
		case err == nil || errors.Is(err, driver.ErrUnknown): // it may restart already
			m.resets.Store(t.Node.UUID, h.Session)
		case err != nil && h.Asked && !errors.Is(err, driver.ErrFenced):
			h.Asked = false // it was refused
			return driver.Outcome{}, errors.Join(err, t.Record.SaveHandle(ctx, h))
		case err != nil:
			return driver.Outcome{}, err
		}
		m.rest(t)
		t.Record.Busy("the BMC restarts")
		return driver.Wait(jobPoll), nil
	}
	if h.Back {
		t.Record.Idle()
		return driver.Done(), nil
	}
	over := false
	err := m.pool.with(ctx, nil, t.Node, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		k, err := managerOf(c, s)
		if err != nil {
			return err
		}
		forgotten, err := forgot(c, m.toldBy(t, &h))
		over = h.Down || k.LastResetTime != h.Was || forgotten
		return err
	})
	if _, resting := errors.AsType[driver.Resting](err); resting {
		t.Record.Busy("the BMC restarts")
		return driver.Wait(driver.PauseAfter(err, jobPoll)), nil
	}
	h.Looks++
	switch silent := errors.Is(err, driver.ErrUnreachable); {
	case err == nil && over:
		t.Record.Idle()
		t.Record.Phase("BMC reset", "it answers again")
		h.Back = true
		return driver.Done(), t.Record.SaveHandle(ctx, h)
	case err != nil && !silent, h.Looks >= bmcRestarts && silent:
		return driver.Outcome{}, err
	case h.Looks >= bmcRestarts:
		t.Record.Idle()
		took := "it accepted the order"
		if m.toldBy(t, &h) == "" {
			took = "another rackd gave the order, which may be lost or carried out"
		}
		return driver.Outcome{}, fmt.Errorf("node %s: %s: %s, and it has not been seen to restart within %s: look at its log", t.Node.Label(), doing, took, bmcRestarts*jobPoll)
	case silent:
		h.Down = true
	}
	t.Record.Busy("the BMC restarts") // also a successor, whose predecessor may not have told
	return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
}

// toldBy is the session in which this rackd gave the order, empty for an order of another: that one's session may be over because it
// has logged out, whether the order was given or not.
func (m Management) toldBy(t *driver.Task, h *resettingBMC) string {
	if session, told := m.resets.Load(t.Node.UUID); !told || session != h.Session {
		return ""
	}
	return h.Session
}

// rest leaves the node's BMC alone while it restarts.
func (m Management) rest(t *driver.Task) {
	if a, err := m.pool.opts.Dialect.parse(t.Node); err == nil {
		m.pool.Rest(a.endpoint, cmp.Or(m.Rest, 15*time.Second))
	}
}

// forgot reports whether the BMC no longer knows a session that it had; empty: nothing is known.
func forgot(c *gofish.APIClient, session string) (bool, error) {
	if session == "" {
		return false, nil
	}
	err := fetch(c, session, &struct{}{})
	if status(err) == http.StatusNotFound {
		return true, nil
	}
	return false, err
}

// orderResetBMC gives the order, and saves before that it does.
func orderResetBMC(ctx context.Context, t *driver.Task, h *resettingBMC, b *session, a account, c *gofish.APIClient, by ResetOrder) error {
	s, err := b.system(c, a)
	if err != nil {
		return err
	}
	k, err := managerOf(c, s)
	if err != nil {
		return err
	}
	target, body, err := by(&Turn{b, a, c, s})
	if err != nil {
		return err
	}
	h.Asked, h.Was, h.Session = true, k.LastResetTime, b.id()
	if err := t.Record.SaveHandle(ctx, h); err != nil {
		return err
	}
	_, err = order(c, http.MethodPost, target, body)
	return err
}

// managerReset is the standard's action.
func managerReset(t *Turn) (string, any, error) {
	k, err := managerOf(t.c, t.System)
	if err != nil {
		return "", nil, err
	}
	reset := k.Actions.Reset
	if reset.Target == "" {
		return "", nil, fmt.Errorf("it has no action that restarts it: %w", driver.ErrUnsupported)
	}
	body := map[string]any{}
	for _, kind := range []string{"GracefulRestart", "ForceRestart"} {
		if slices.Contains(reset.Allowed, kind) || reset.Allowed == nil && kind == "ForceRestart" {
			body["ResetType"] = kind
			break
		}
	}
	return reset.Target, body, nil
}
