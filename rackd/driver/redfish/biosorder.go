package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// configuring is the handle of a step that changes BIOS settings. It is saved before the order. The order may be given again: it ends
// in the same settings.
type configuring struct {
	ordered
	Job string `json:"job,omitempty"`
	// Before are, of a reset to the factory's settings, those that were others.
	Before map[string]any `json:"before,omitempty"`
	// Compared: the registry says what the factory's settings are.
	Compared bool `json:"compared,omitempty"`
	// Rest is for how many looks the settings have been as Left says.
	Rest int    `json:"rest,omitempty"`
	Left string `json:"left,omitempty"`
	// Began: since the restart the firmware was seen at work, so that the BMC's word of its end counts.
	Began bool `json:"began,omitempty"`
	// Written: something was ordered, so that what is there was not there before.
	Written bool `json:"written,omitempty"`
	restored
}

// biosOrder is an order about the settings.
type biosOrder interface {
	doing() string
	// give gives it and returns the path of its task. given is false where there is nothing to order.
	give(c *gofish.APIClient, m maker, r biosResource, known map[string]attribute, n *node.Document, h *configuring, save func() error) (job string, given bool, err error)
	// left says what the settings do not show yet of the order's effect, empty: nothing. An end of it that is good enough
	// counts as such where it rests; said tells people of it.
	left(r biosResource, known map[string]attribute, h *configuring) (left string, enough bool, said string)
}

// NamedSteps lists Ironic's steps for BIOS settings.
func (b BIOS) NamedSteps(*node.Document) []driver.Step {
	step := driver.Step{Interface: "bios", Kind: driver.Reattachable, Retries: 4, Pause: jobPoll, NoRamdisk: true}
	apply, reset := step, step
	apply.Name = "apply_configuration"
	apply.Takes = map[string]driver.Argument{"settings": {Required: true,
		Description: "A list of BIOS settings, each with name and value. The machine is restarted unless it has them all."}}
	apply.Check = func(n *node.Document, args map[string]any) error {
		_, err := settingsIn(n, args["settings"])
		return err
	}
	apply.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		list, err := settingsIn(t.Node, t.Args["settings"])
		if err != nil {
			return driver.Outcome{}, err
		}
		return b.carryOut(ctx, t, applying(list))
	}
	reset.Name = "factory_reset"
	reset.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		return b.carryOut(ctx, t, resetting{})
	}
	return []driver.Step{apply, reset}
}

// carryOut gives the order, restarts the machine for it, and reads back that its settings are so.
func (b BIOS) carryOut(ctx context.Context, t *driver.Task, o biosOrder) (driver.Outcome, error) {
	var h configuring
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of a change of BIOS settings cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	h.claims = b.claims(t.Node)
	is, err := b.advance(ctx, t, &h, o)
	for turn := 0; turn < 2 && err == nil && is == running && h.nextIsOurs(); turn++ {
		if err = t.Record.SaveHandle(ctx, h); err == nil {
			is, err = b.advance(ctx, t, &h, o)
		}
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if is == running {
		return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
	}
	t.Record.Idle()
	if err := h.restore(ctx, t, b.Bringup); err != nil {
		return driver.Outcome{}, err
	}
	list, err := b.Settings(ctx, t.Node)
	if errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced) {
		return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Observe(hardware.Observation{BIOS: list})
	return driver.Done(), nil
}

// nextIsOurs: the BMC is not waited for. The order was taken and the machine is to be restarted for it.
func (h *configuring) nextIsOurs() bool {
	return h.Told && !h.Due || h.Due && !h.Up && h.Boot == nil
}

// advance brings the order, and the restart that it needs, forward by one look.
func (b BIOS) advance(ctx context.Context, t *driver.Task, h *configuring, o biosOrder) (progress, error) {
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }
	if err := h.bring(ctx, t, b.Bringup, save); err != nil {
		return running, err
	}
	if h.Job != "" {
		switch is, err := b.job(ctx, t, o.doing(), h.Job, &h.ordered); {
		case err != nil || is == running:
			return running, err
		case is == staged:
			return running, b.stage(ctx, t, h, h.Far)
		}
		h.Job, h.Told, h.Looks = "", true, 0
	}
	switch {
	case h.pending():
		return running, nil
	case h.Told:
		return b.verify(ctx, t, h, o)
	}
	return b.order(ctx, t, h, o)
}

// stage notes that the order needs a restart, and what the machine's power was before.
func (b BIOS) stage(ctx context.Context, t *driver.Task, h *configuring, why string) error {
	if err := h.note(ctx, t); err != nil {
		return err
	}
	t.Record.Idle()
	h.Looks, h.Rest = 0, 0
	h.need(t, "BIOS settings: the machine takes them when it starts: "+why)
	return nil
}

// order gives the order, and saves before that it does. One that may have been taken is looked for first.
func (b BIOS) order(ctx context.Context, t *driver.Task, h *configuring, o biosOrder) (is progress, err error) {
	err = b.pool.with(ctx, t.Fence, t.Node, o.doing(), func(bs *session, a account, c *gofish.APIClient) error {
		s, r, known, err := b.look(bs, a, c)
		if err != nil {
			return err
		}
		if fresh := h.fresh(c); h.Asked && len(fresh) == 1 {
			h.Job = fresh[0]
			h.claims.take(h.Job)
			return nil
		}
		if left := pendingOf(r, known); left != "" && !h.Asked {
			t.Record.Phase("BIOS settings", "the BMC has these pending from before, for the next start: "+left)
		}
		var given bool
		h.Job, given, err = o.give(c, makerOf(c, s), r, known, t.Node, h, func() error {
			h.about(c)
			h.Written = true
			t.Record.Busy("asked to " + o.doing())
			return t.Record.SaveHandle(ctx, h)
		})
		h.claims.take(h.Job)
		switch {
		case err != nil:
			return err
		case !given:
			is = done
		default:
			h.Told = h.Job == ""
		}
		return nil
	})
	if err != nil && !errors.Is(err, driver.ErrUnknown) {
		t.Record.Idle()
	}
	return is, err
}

// look reads the settings with what the registry says of them.
func (b BIOS) look(bs *session, a account, c *gofish.APIClient) (s *System, r biosResource, known map[string]attribute, err error) {
	if s, err = bs.system(c, a); err == nil {
		r, err = biosOf(c, s)
	}
	if err == nil {
		known, err = registryOf(c, r.AttributeRegistry)
	}
	return s, r, known, err
}

// verify looks whether the settings show the order's effect. The machine is restarted for it, once.
func (b BIOS) verify(ctx context.Context, t *driver.Task, h *configuring, o biosOrder) (progress, error) {
	var r biosResource
	var known map[string]attribute
	started, clean := false, account{}.clean
	err := b.pool.with(ctx, nil, t.Node, o.doing(), func(bs *session, a account, c *gofish.APIClient) (err error) {
		clean = a.clean
		var s *System
		s, r, known, err = b.look(bs, a, c)
		if err == nil {
			started = slices.Contains(afterFirmware, s.BootProgress.LastState)
			h.Began = h.Due && (h.Began || !started && s.BootProgress.LastState != "")
		}
		return err
	})
	h.Looks++
	switch {
	case err != nil && (!errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrFenced) || h.Looks > restarted):
		return running, err
	case err != nil: // the BMC restarts along with the machine
		t.Record.Busy("it does not answer after its order to " + o.doing())
		return running, nil
	}
	left, enough, said := o.left(r, known, h)
	if h.Left != left || h.Rest == 0 {
		h.Left, h.Rest = left, 0
	}
	h.Rest++
	limit := restarted
	if started && h.Began {
		limit = looks // the firmware is through with it
	}
	switch {
	case left == "" && (h.Due || !enough):
		return b.shown(t, said), nil
	case !h.Due:
		return running, b.stage(ctx, t, h, left)
	case enough && h.Rest >= settles:
		return b.shown(t, said), nil
	case h.Looks < limit:
		t.Record.Busy("the BIOS does not show its new settings yet: " + left)
		return running, nil
	}
	t.Record.Idle()
	var messages []string
	for _, m := range r.Settings.Messages {
		messages = append(messages, first(m.Message, m.MessageID))
	}
	told := ""
	if len(messages) > 0 {
		told = ". The BMC says: " + clean(strings.Join(messages, " "))
	}
	return running, fmt.Errorf("node %s: Redfish BIOS %s step failed: %s%s%s. What is still pending at the BMC may come with a later restart",
		t.Node.Label(), o.doing(), left, h.sinceRestart(), told)
}

// shown ends the order, and tells people what is to be said of its end.
func (b BIOS) shown(t *driver.Task, said string) progress {
	if said != "" {
		t.Record.Phase("BIOS settings", said)
	}
	return done
}

// afterFirmware are the states of a start in which the firmware has ended.
var afterFirmware = []schemas.BootProgressTypes{schemas.OSBootStartedBootProgressTypes, schemas.OSRunningBootProgressTypes}
