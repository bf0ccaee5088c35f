package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// NoTask: the BMC has made no task of the order, so that nothing but the version tells its end.
	NoTask bool `json:"no_task,omitempty"`
	// Found: Targets has the part of each update, an empty one for BIOS and BMC.
	Found   bool         `json:"found,omitempty"`
	Targets []wantedPart `json:"targets,omitempty"`
	// Made are the components that have shown a new version: BIOS and BMC by their names, parts by their paths.
	Made []string `json:"made,omitempty"`
	restored
}

// shows notes that the component of the update at hand shows a new version.
func (h *updating) shows(u update, now firmwareShown) {
	made := []string{u.Component}
	switch {
	case u.isPart():
		made[0] = h.Targets[h.At].Path
	case u.Component == anyOfIt:
		made = now.news(h.Was)
	}
	for _, one := range made {
		if !slices.Contains(h.Made, one) {
			h.Made = append(h.Made, one)
		}
	}
}

// ended moves on to the next update.
func (h *updating) ended() {
	h.At, h.ordered, h.Job, h.Was, h.NoTask = h.At+1, ordered{claims: h.claims}, "", "", false
}

func (f Firmware) update(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	list, err := updates(t.Node, t.Args["settings"])
	if err != nil {
		return driver.Outcome{}, err
	}
	if err := reach(ctx, t, list); err != nil {
		return driver.Outcome{}, err
	}
	return f.carryOut(ctx, t, list)
}

// reach refuses, before the first order, a file that a BMC is not told to read. An owner or a lessee may name it. The BMC is in networks
// that neither is in.
func reach(ctx context.Context, t *driver.Task, list []update) error {
	if t.Reach == nil || t.Record.Handle() != nil {
		return nil
	}
	for i, u := range list {
		if err := t.Reach(ctx, u.URL); err != nil {
			return fmt.Errorf("node %s: firmware update %d: the BMC is not told to read %s: its %w: %w", t.Node.Label(), i+1, u.shown, err, driver.ErrInvalid)
		}
	}
	return nil
}

// carryOut brings the updates of a list forward, one after the other.
func (f Firmware) carryOut(ctx context.Context, t *driver.Task, list []update) (_ driver.Outcome, err error) {
	var h updating
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of the firmware update cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	h.claims = f.claims(t.Node)
	if !h.Found && slices.ContainsFunc(list, update.isPart) {
		if h.Targets, err = f.targets(ctx, t.Node, list); err != nil {
			return driver.Outcome{}, err
		}
		h.Found = true
	}
	for h.At < len(list) {
		is, err := f.advance(ctx, t, &h, list[h.At])
		if err != nil {
			return driver.Outcome{}, err
		}
		if is != running {
			h.ended()
		}
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return driver.Outcome{}, err
		}
		if is == running {
			return driver.Wait(jobPoll), nil
		}
	}
	// Many BMCs show adapters only while the machine runs.
	if err := f.tell(ctx, t, &h); errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced) {
		return driver.Wait(jobPoll), nil // it restarts with its new firmware
	} else if err != nil {
		return driver.Outcome{}, err
	}
	return driver.Done(), h.restore(ctx, t, f.Bringup)
}

// advance brings one update, and the restart that it needs, forward by one look.
func (f Firmware) advance(ctx context.Context, t *driver.Task, h *updating, u update) (progress, error) {
	doing := "update the firmware of the " + u.Component
	if err := h.bring(ctx, t, f.Bringup, func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }); err != nil {
		return running, err
	}
	if h.Job != "" {
		switch is, err := f.job(ctx, t, doing, h.Job, &h.ordered); {
		case err != nil || is == running:
			return running, err
		case is == staged:
			return running, h.stage(ctx, t, u.Component+": the BMC writes it when the machine restarts: "+h.Far)
		}
		h.Job, h.Told, h.Looks = "", true, 0
	}
	switch {
	case h.pending():
		return running, nil
	case h.Told:
		return f.verify(ctx, t, doing, h, u)
	case h.Asked:
		return f.lookBack(ctx, t, doing, h, u)
	}
	return f.begin(ctx, t, doing, h, u)
}

// stage notes that the order needs a restart, and what the machine's power was before.
func (h *updating) stage(ctx context.Context, t *driver.Task, why string) error {
	if err := h.note(ctx, t); err != nil {
		return err
	}
	h.need(t, why)
	return nil
}

// How many looks, jobPoll apart, a new version may take to show.
const (
	// biosShows is after a task that has ended: then a BIOS, or a part, waits for a restart.
	biosShows = looks
	// bmcShows is of a BMC, which restarts by itself.
	bmcShows = 30
	// untoldShows is without a task: the BMC may be at work on it, and the machine must not be restarted.
	untoldShows = 180
)

// patience is for how many looks the new version may take to show.
func (h *updating) patience(u update) int {
	switch {
	case h.Due:
		return max(restarted, u.rest)
	case u.wait > 0:
		return u.wait
	case h.NoTask:
		return untoldShows
	case u.restarts() && u.Component != anyOfIt: // that may be the BMC
		return biosShows
	}
	return bmcShows
}

// verify looks whether the component shows a new version once the BMC has said that the update has ended. Only that
// is an update that was made. What is no BMC and does not show it has the machine restarted, once. A part that shows no other version even
// then fails the step. So does any component where the BMC has made no task of the order: then nothing tells that it has written.
func (f Firmware) verify(ctx context.Context, t *driver.Task, doing string, h *updating, u update) (progress, error) {
	var now firmwareShown
	err := f.pool.with(ctx, nil, t.Node, doing, func(b *session, a account, c *gofish.APIClient) (err error) {
		now, err = f.version(b, a, c, h, u)
		return err
	})
	h.Looks++
	switch {
	case err != nil && (!errors.Is(err, driver.ErrUnreachable) || h.Looks > untoldShows):
		return running, err
	case err != nil: // it restarts with its new firmware
		t.Record.Busy("it does not answer after its order to " + doing)
		return running, nil
	case now.changed(h.Was) && h.Looks <= u.rest:
		t.Record.Busy("it has written " + u.shown + ", and is left alone for as long as the request says")
		return running, nil
	case now.changed(h.Was):
		t.Record.Idle()
		h.shows(u, now)
		return done, nil
	case h.Looks < h.patience(u):
		t.Record.Busy(fmt.Sprintf("the %s shows %s before its update", u.Component, now.than(h.Was)))
		return running, nil
	case u.restarts() && !h.Due:
		t.Record.Idle()
		h.Looks = 0
		return running, h.stage(ctx, t, fmt.Sprintf("the BMC has ended the update of the %s, which shows %s before", u.Component, now.than(h.Was)))
	}
	t.Record.Idle()
	if u.isPart() {
		return running, fmt.Errorf("node %s: %s: the BMC said that it has ended, and the %s shows %s%s; it was version %s. Either %s holds that version or is for other hardware, or the BMC has not taken it: look at its log",
			t.Node.Label(), doing, u.Component, now, h.sinceRestart(), h.Was, u.shown)
	}
	if h.NoTask {
		return running, fmt.Errorf("node %s: %s: the BMC accepted the order and made no task of it, and the %s shows %s before%s. So nothing tells that %s was written. "+
			"Either the machine holds that version already, or the BMC has not taken it: look at the BMC's log",
			t.Node.Label(), doing, u.Component, now.than(h.Was), h.sinceRestart(), u.shown)
	}
	t.Record.Phase("firmware unchanged: "+u.Component, fmt.Sprintf("it still shows %s%s, and the BMC tells of no failure: either %s holds that version, or the BMC has not taken it",
		now, h.sinceRestart(), u.shown))
	return done, nil
}

// begin gives the order, and saves before that it does.
func (f Firmware) begin(ctx context.Context, t *driver.Task, doing string, h *updating, u update) (progress, error) {
	var code int
	var there string // what shows that an order which the BMC seemed to refuse was taken
	asked, unseen, made := false, "", ""
	var now firmwareShown
	err := f.pool.with(ctx, t.Fence, t.Node, doing, func(b *session, a account, c *gofish.APIClient) error {
		target, err := simpleUpdate(c)
		if err != nil {
			return err
		}
		if now, err = f.version(b, a, c, h, u); err != nil {
			return err
		}
		if fresh := h.fresh(c); len(fresh) == 1 || h.Was != "" && now.differs(h.Was) && (!u.isPart() || now.version != "") {
			there = strings.Join(fresh, "")
			h.Asked = true
			return nil
		}
		switch {
		case u.isPart() && now.version == "":
			unseen = now.String()
			return nil
		case u.isPart() && u.like != "" && now.changed(h.Targets[h.At].Was):
			made = now.version
			return nil
		}
		h.Was = now.version
		h.about(c)
		t.Record.Busy("asked to " + doing)
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return err
		}
		asked = true
		scheme, _, _ := strings.Cut(u.URL, ":")
		h.Job, err = order(c, http.MethodPost, target, map[string]any{"ImageURI": u.URL, "TransferProtocol": strings.ToUpper(scheme)})
		h.claims.take(h.Job)
		code = status(err)
		return err
	})
	switch {
	case err == nil && unseen != "":
		return running, h.await(t, doing, u, unseen)
	case err == nil && made != "":
		t.Record.Idle()
		t.Record.Phase("firmware "+u.Component, fmt.Sprintf("it shows version %s since the update of the %s with the same file", made, u.like))
		h.shows(u, now)
		return done, nil
	}
	if !asked {
		h.Job = there
		h.claims.take(h.Job)
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
	t.Record.Phase("firmware "+u.Component, "the BMC fetches "+u.shown)
	h.NoTask = h.Job == ""
	h.Told = h.NoTask
	return running, nil
}

// lookBack looks whether an order was taken whose answer is not known.
func (f Firmware) lookBack(ctx context.Context, t *driver.Task, doing string, h *updating, u update) (is progress, err error) {
	var fresh []string
	var now firmwareShown
	err = f.pool.with(ctx, nil, t.Node, doing, func(b *session, a account, c *gofish.APIClient) error {
		fresh = h.fresh(c)
		now, err = f.version(b, a, c, h, u)
		return err
	})
	switch {
	case errors.Is(err, driver.ErrUnreachable):
		return running, nil // it may be at work on itself
	case err != nil:
		return running, err
	case len(fresh) == 1:
		h.Job = fresh[0]
		h.claims.take(h.Job)
		t.Record.Phase("firmware "+u.Component, "the BMC fetches "+u.shown)
		return running, nil
	case h.Was != "" && now.changed(h.Was):
		t.Record.Idle()
		h.shows(u, now)
		return done, nil
	}
	effect := "it reports no version of the " + u.Component
	switch {
	case now.all != nil:
		effect = "its components show the versions of before"
	case now.version != "":
		effect = fmt.Sprintf("its %s is of version %s", u.Component, now.version)
	}
	return running, h.look(t, doing, effect, fresh)
}

// version reads what a component shows.
func (f Firmware) version(b *session, a account, c *gofish.APIClient, h *updating, u update) (firmwareShown, error) {
	if u.isPart() {
		return h.Targets[h.At].look(c)
	}
	s, err := b.system(c, a)
	if err != nil {
		return firmwareShown{}, err
	}
	if u.Component == anyOfIt {
		return anyShown(c, s)
	}
	list, err := versions(s)
	for _, v := range list {
		if v.Name == u.Component {
			return firmwareShown{version: v.Current}, err
		}
	}
	return firmwareShown{}, err
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

// tell reports the versions that are there now. A version counts as flashed if it is another than before.
func (f Firmware) tell(ctx context.Context, t *driver.Task, h *updating) error {
	o, err := f.found(ctx, t.Node)
	if errors.Is(err, driver.ErrUnsupported) && len(h.Made) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for i, c := range o.system {
		if slices.Contains(h.Made, c.Name) {
			o.system[i].Flashed = c.Current
		}
	}
	for i, p := range o.parts {
		if slices.Contains(h.Made, p.path) {
			o.parts[i].Flashed = p.Current
		}
	}
	if list := o.components(); len(list) > 0 {
		t.Record.Observe(hardware.Observation{Firmware: list})
	}
	return nil
}
