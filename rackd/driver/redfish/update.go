package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
)

// updating is the handle of the step. It is saved before each order and after each end, so that a
// firmware is never written twice.
type updating struct {
	At int `json:"at"` // of the list
	// The order of update At, and the task that the BMC has made of it.
	ordered
	Job string `json:"job,omitempty"`
	// Was is the component's version before the order; empty: not told.
	Was string `json:"was,omitempty"`
	// Made are the components that have their new firmware. Staged are those whose new firmware
	// waits for a restart.
	Made   []string `json:"made,omitempty"`
	Staged []string `json:"staged,omitempty"`
	// Taken are the components whose order was taken, and whose end the BMC did not tell, each
	// with its version before.
	Taken map[string]string `json:"taken,omitempty"`
}

// ended moves on to the next update.
func (h *updating) ended() { h.At, h.ordered, h.Job, h.Was = h.At+1, ordered{}, "", "" }

func (f Firmware) update(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	list, err := updates(t.Node, t.Args["settings"])
	if err != nil {
		return driver.Outcome{}, err
	}
	var h updating
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of the firmware update cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	for h.At < len(list) {
		is, err := f.advance(ctx, t, &h, list[h.At])
		if err != nil {
			return driver.Outcome{}, err
		}
		if is != running {
			h.note(t, list[h.At], is)
			h.ended()
		}
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return driver.Outcome{}, err
		}
		if is == running {
			return driver.Wait(jobPoll), nil
		}
	}
	if err := f.tell(ctx, t, &h); errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced) {
		return driver.Wait(jobPoll), nil // it restarts with its new firmware
	} else if err != nil {
		return driver.Outcome{}, err
	}
	return driver.Done(), nil
}

// advance brings one update forward by one look.
func (f Firmware) advance(ctx context.Context, t *driver.Task, h *updating, u update) (progress, error) {
	doing := "update the firmware of the " + u.Component
	switch {
	case h.Job != "":
		return f.job(ctx, t, doing, h.Job)
	case h.Asked:
		return f.lookBack(ctx, t, doing, h, u)
	}
	return f.begin(ctx, t, doing, h, u)
}

// note keeps what is known of an update that has ended.
func (h *updating) note(t *driver.Task, u update, is progress) {
	drop := func(name string) bool { return name == u.Component }
	h.Made, h.Staged = slices.DeleteFunc(h.Made, drop), slices.DeleteFunc(h.Staged, drop)
	delete(h.Taken, u.Component)
	switch is {
	case done:
		h.Made = append(h.Made, u.Component)
	case staged:
		h.Staged = append(h.Staged, u.Component)
		t.Record.Phase("firmware", u.Component+": the new version takes effect when the machine restarts")
	case forgotten:
		if h.Taken == nil {
			h.Taken = map[string]string{}
		}
		h.Taken[u.Component] = h.Was
	}
}

// begin gives the order, and saves before that it does.
func (f Firmware) begin(ctx context.Context, t *driver.Task, doing string, h *updating, u update) (progress, error) {
	var code int
	var there string // what shows that an order which the BMC seemed to refuse was taken
	asked := false
	err := f.pool.with(ctx, t.Fence, t.Node, doing, func(b *bmc, a account, c *gofish.APIClient) error {
		target, err := simpleUpdate(c)
		if err != nil {
			return err
		}
		now, err := f.version(b, a, c, u.Component)
		if err != nil {
			return err
		}
		if fresh := h.fresh(c); len(fresh) == 1 || h.Was != "" && now != h.Was {
			there = strings.Join(fresh, "")
			h.Asked = true
			return nil
		}
		h.Was = now
		h.about(c)
		t.Record.Busy("asked to " + doing)
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return err
		}
		asked = true
		scheme, _, _ := strings.Cut(u.URL, ":")
		h.Job, err = order(c, http.MethodPost, target, map[string]any{"ImageURI": u.URL, "TransferProtocol": strings.ToUpper(scheme)})
		code = status(err)
		return err
	})
	if !asked {
		h.Job = there
		return running, err
	}
	taken, err := h.outcome(doing, code, err)
	switch {
	case !taken:
		t.Record.Idle()
		return running, errors.Join(err, t.Record.SaveHandle(ctx, h))
	case err != nil || h.Said != "":
		return running, err // it is looked for
	}
	t.Record.Phase("firmware", "the BMC fetches "+u.shown)
	if h.Job == "" {
		t.Record.Idle()
		return forgotten, nil
	}
	return running, nil
}

// lookBack looks whether an order was taken whose answer is not known.
func (f Firmware) lookBack(ctx context.Context, t *driver.Task, doing string, h *updating, u update) (is progress, err error) {
	var fresh []string
	var now string
	err = f.pool.with(ctx, nil, t.Node, doing, func(b *bmc, a account, c *gofish.APIClient) error {
		fresh = h.fresh(c)
		now, err = f.version(b, a, c, u.Component)
		return err
	})
	switch {
	case errors.Is(err, driver.ErrUnreachable):
		return running, nil // it may be at work on itself
	case err != nil:
		return running, err
	case len(fresh) == 1:
		h.Job = fresh[0]
		t.Record.Phase("firmware", "the BMC fetches "+u.shown)
		return running, nil
	case h.Was != "" && now != "" && now != h.Was:
		t.Record.Idle()
		return done, nil
	}
	effect := "it tells no version of the " + u.Component
	if now != "" {
		effect = fmt.Sprintf("its %s is of version %s", u.Component, now)
	}
	return running, h.look(t, doing, effect, fresh)
}

// version reads a component's, empty for one that the BMC does not tell.
func (f Firmware) version(b *bmc, a account, c *gofish.APIClient, component string) (string, error) {
	s, err := b.system(c, a)
	if err != nil {
		return "", err
	}
	list, err := versions(s)
	for _, v := range list {
		if v.Name == component {
			return v.Current, err
		}
	}
	return "", err
}

// simpleUpdate finds where the BMC is told to fetch firmware.
func simpleUpdate(c *gofish.APIClient) (target string, err error) {
	var root struct{ UpdateService ref }
	if err := fetch(c, "/redfish/v1", &root); err != nil {
		return "", err
	}
	var service struct {
		Actions struct {
			Simple struct {
				Target string `json:"target"`
			} `json:"#UpdateService.SimpleUpdate"`
		}
	}
	if root.UpdateService.Path != "" {
		if err := fetch(c, root.UpdateService.Path, &service); err != nil {
			return "", err
		}
	}
	if service.Actions.Simple.Target == "" {
		return "", fmt.Errorf("it fetches no firmware by itself: %w", driver.ErrUnsupported)
	}
	return service.Actions.Simple.Target, nil
}

// tell reports the versions that are there now. A version counts as flashed if a task says so, or if
// it is another than before.
func (f Firmware) tell(ctx context.Context, t *driver.Task, h *updating) error {
	list, err := f.Components(ctx, t.Node)
	if errors.Is(err, driver.ErrUnsupported) && len(h.Made) == 0 {
		list, err = nil, nil
	}
	if err != nil {
		return err
	}
	pending := maps.Clone(h.Taken)
	for i, c := range list {
		was, taken := h.Taken[c.Name]
		if slices.Contains(h.Made, c.Name) || taken && was != "" && was != c.Current {
			list[i].Flashed = c.Current
			delete(pending, c.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		t.Record.Phase("firmware", name+": the BMC has taken the order and does not tell of its end; its version is the one of before")
	}
	if len(list) > 0 {
		t.Record.Observe(hardware.Observation{Firmware: list})
	}
	return nil
}
