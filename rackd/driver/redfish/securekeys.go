package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/rackd/driver"
)

// keying is the handle of a step that changes the keys of secure boot. The order may be given again: it ends in the same keys.
type keying struct {
	ordered
	Job string `json:"job,omitempty"`
	restored
}

// securing is a system's secure boot, as far as its keys show in it.
type securing struct {
	ref
	SecureBootMode      string
	SecureBootDatabases ref
	Actions             struct {
		ResetKeys struct {
			Target  string   `json:"target"`
			Allowed []string `json:"ResetKeysType@Redfish.AllowableValues"`
		} `json:"#SecureBoot.ResetKeys"`
	}
}

// shows reports whether the mode is one of machines whose keys were changed so; certain, whether the mode proves it. A machine
// without keys is in SetupMode, one with keys of any origin is not.
func (s securing) shows(kind schemas.ResetKeysType) (so, certain bool) {
	empty := s.SecureBootMode == string(schemas.SetupModeSecureBootModeType)
	if s.SecureBootMode == "" {
		return false, false
	}
	return empty == (kind != schemas.ResetAllKeysToDefaultResetKeysType), empty
}

// securingOf reads a system's secure boot.
func securingOf(c *gofish.APIClient, s *System) (k securing, err error) {
	state, err := secureBoot(s)
	if err != nil {
		return k, err
	}
	err = fetch(c, state.Path, &k)
	k.ref = ref{state.Path}
	return k, err
}

// resetsKeys is the step that deletes the keys of secure boot, or has the BMC put the manufacturer's in.
func (m Management) resetsKeys(kind schemas.ResetKeysType) func(context.Context, *driver.Task) (driver.Outcome, error) {
	doing := "put the manufacturer's keys of secure boot in"
	if kind == schemas.DeleteAllKeysResetKeysType {
		doing = "delete the keys of secure boot"
	}
	return func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		var h keying
		if raw := t.Record.Handle(); raw != nil {
			if err := json.Unmarshal(raw, &h); err != nil {
				return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of a change of keys cannot be read: %w", t.Node.Label(), raw, err)
			}
		}
		is, err := m.advanceKeys(ctx, t, &h, kind, doing)
		if err != nil {
			return driver.Outcome{}, err
		}
		if is == running {
			return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
		}
		t.Record.Idle()
		return driver.Done(), h.restore(ctx, t, m.Bringup)
	}
}

// tell says that the BMC is at work for the order, unless it waits for the machine's restart. A restart that does not end is no sign of
// life: the flow's deadline ends it.
func (h *keying) tell(t *driver.Task, doing string) {
	switch {
	case h.Due && h.Boot == nil:
		t.Record.Idle()
	case !h.pending():
		t.Record.Busy("asked to " + doing)
	}
}

// advanceKeys gives the order, or brings it forward by one look.
func (m Management) advanceKeys(ctx context.Context, t *driver.Task, h *keying, kind schemas.ResetKeysType, doing string) (progress, error) {
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }
	if err := h.bring(ctx, t, m.Bringup, save); err != nil {
		return running, err
	}
	if h.Job != "" {
		switch is, err := m.job(ctx, t, doing, h.Job, &h.ordered); {
		case err != nil || is == running:
			return running, err
		case is == staged:
			return running, m.stageKeys(ctx, t, h, h.Far)
		}
		h.Job, h.Told = "", true
	}
	if h.pending() {
		return running, nil
	}
	advance := m.verifyKeys
	if !h.Told {
		advance = m.orderKeys
	}
	is, err := advance(ctx, t, h, kind, doing)
	if err == nil && is == running {
		h.tell(t, doing)
	}
	return is, err
}

func (m Management) stageKeys(ctx context.Context, t *driver.Task, h *keying, why string) error {
	if err := h.note(ctx, t); err != nil {
		return err
	}
	h.Looks = 0
	h.need(t, "the BMC changes the keys of secure boot when the machine restarts: "+why)
	return nil
}

// orderKeys gives the order, unless the keys are known to be so.
func (m Management) orderKeys(ctx context.Context, t *driver.Task, h *keying, kind schemas.ResetKeysType, doing string) (is progress, err error) {
	err = m.pool.with(ctx, t.Fence, t.Node, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		k, err := securingOf(c, s)
		if err != nil {
			return err
		}
		reset := k.Actions.ResetKeys
		if reset.Target == "" || reset.Allowed != nil && !slices.Contains(reset.Allowed, string(kind)) {
			return fmt.Errorf("it does not change the keys of secure boot in this way (%v): %w", reset.Allowed, driver.ErrUnsupported)
		}
		if so, certain := k.shows(kind); so && certain {
			is = done
			return nil
		}
		h.Job, err = order(c, http.MethodPost, reset.Target, map[string]any{"ResetKeysType": kind})
		h.Told = err == nil && h.Job == ""
		return err
	})
	return is, err
}

// verifyKeys looks whether the mode shows the order's effect. A machine that does not show it is restarted, once.
func (m Management) verifyKeys(ctx context.Context, t *driver.Task, h *keying, kind schemas.ResetKeysType, doing string) (progress, error) {
	var k securing
	err := m.pool.with(ctx, nil, t.Node, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err == nil {
			k, err = securingOf(c, s)
		}
		return err
	})
	so, _ := k.shows(kind)
	h.Looks++
	switch {
	case errors.Is(err, driver.ErrUnreachable) && h.Looks < restarted:
		return running, nil
	case err != nil:
		return running, err
	case so, k.SecureBootMode == "":
		t.Record.Phase("secure boot keys", fmt.Sprintf("the BMC said that it has done so; it shows the mode %q", k.SecureBootMode))
		return done, nil
	case !h.Due && h.Looks >= settles:
		return running, m.stageKeys(ctx, t, h, "it shows the mode "+k.SecureBootMode)
	case !h.Due || h.Looks < restarted:
		return running, nil
	}
	t.Record.Idle()
	return running, fmt.Errorf("node %s: %s: the BMC said that it has done so, and shows the mode %s%s: look at the machine's firmware set-up",
		t.Node.Label(), doing, k.SecureBootMode, h.sinceRestart())
}
