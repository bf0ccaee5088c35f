package redfish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// building is the handle of a step. It is saved before each order, so that no volume is made or
// deleted twice.
type building struct {
	Emptied bool   `json:"emptied,omitempty"` // what there was is deleted, if it was to be
	At      int    `json:"at"`                // of the logical disks
	Job     string `json:"job,omitempty"`     // that deletes a volume or makes disk At
	// Had are the volumes before the order for disk At: a new one shows that it was taken. Want is what was asked for.
	Had  []string `json:"had"`
	Want wanted   `json:"want,omitzero"`
	// The order for disk At, or for the deletion of volume Going.
	ordered
	Going string `json:"going,omitempty"`
	// Made are the volumes that were seen to be there, each with the disk that it is.
	Made map[string]int `json:"made,omitempty"`
	restored

	vain *vain // of the look just taken
	// Wanted is the digest of the disks that the step began to make: a target that is changed meanwhile is another.
	Wanted string `json:"wanted,omitempty"`
}

// next moves on from an order whose effect was seen.
func (h *building) next() {
	if h.Emptied {
		h.At++
	}
	h.ordered, h.Job, h.Going, h.Had, h.Want = ordered{claims: h.claims}, "", "", nil, wanted{}
}

// told notes that the BMC says that it has carried the order out. The order counts only once its effect is seen:
// until then it stays noted.
func (h *building) told(said string) {
	h.Told, h.Said, h.Looks = true, said, 0
	if h.Job != "" {
		h.Tasks = append(h.Tasks, h.Job)
	}
	h.Job = ""
}

// bring deletes the volumes that there are, if it is to empty the machine, and makes disks.
func (r RAID) bring(ctx context.Context, t *driver.Task, disks []any, empty bool) (driver.Outcome, error) {
	var h building
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of the RAID configuration cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	if err := h.keepTo(t.Node, disks); err != nil {
		return driver.Outcome{}, err
	}
	h.Emptied = h.Emptied || !empty
	h.claims = r.claims(t.Node)
	for !h.Emptied || h.At < len(disks) {
		waits, err := r.advance(ctx, t, disks, &h)
		if err != nil {
			return driver.Outcome{}, err
		}
		if waits {
			return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
		}
	}
	if err := h.restore(ctx, t, r.Bringup); err != nil {
		return driver.Outcome{}, err
	}
	return driver.Done(), r.tell(ctx, t, disks, &h)
}

// keepTo fails if the step has begun with other disks.
func (h *building) keepTo(n *node.Document, disks []any) error {
	text, err := json.Marshal(disks)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	wanted := hex.EncodeToString(sum[:16])
	if h.Wanted != "" && h.Wanted != wanted {
		return fmt.Errorf("node %s: its target_raid_config was changed while the BMC made the volumes of the one before, of which %d are made: see which volumes there are, then send the request again: %w",
			n.Label(), len(h.Made), driver.ErrInvalid)
	}
	h.Wanted = wanted
	return nil
}

// tell reports the volumes that the BMC shows, and nothing else.
func (r RAID) tell(ctx context.Context, t *driver.Task, disks []any, h *building) error {
	const doing = "read the volumes back"
	var shown map[string]any
	err := r.pool.with(ctx, nil, t.Node, doing, func(b *session, a account, c *gofish.APIClient) error {
		all, err := controllers(b, a, c)
		if err == nil {
			shown, err = readBack(all, disks, h.Made)
		}
		return err
	})
	if err == nil {
		t.Record.Observe(hardware.Observation{RAID: shown})
	}
	return err
}

// advance follows the order that runs and the restart that it needs, or gives the next order.
func (r RAID) advance(ctx context.Context, t *driver.Task, disks []any, h *building) (waits bool, err error) {
	const doing = "change the volumes"
	if err := h.bring(ctx, t, r.Bringup, func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }); err != nil {
		return false, err
	}
	if h.Job != "" {
		is, err := r.job(ctx, t, doing, h.Job, &h.ordered)
		switch {
		case err != nil || is == running:
			return true, err
		case is == staged:
			return true, h.stage(ctx, t, "the BMC changes the volumes when the machine restarts: "+h.Far)
		}
		said := "its task has ended well"
		if is == forgotten {
			said = "it has forgotten its task"
		}
		h.told(said)
	}
	switch {
	case h.pending():
		return true, nil
	case !h.Emptied:
		return r.deleteOne(ctx, t, h)
	}
	return r.makeOne(ctx, t, disks[h.At].(map[string]any), h)
}

// stage notes that the order needs a restart, and what the machine's power was before.
func (h *building) stage(ctx context.Context, t *driver.Task, why string) error {
	if err := h.note(ctx, t); err != nil {
		return err
	}
	h.need(t, why)
	return nil
}

// deleteOne deletes a volume, or notes that there is none left.
func (r RAID) deleteOne(ctx context.Context, t *driver.Task, h *building) (waits bool, err error) {
	const doing = "delete a volume"
	return r.give(ctx, t, doing, h, func(c *gofish.APIClient, all []controller) (func() (string, error), error) {
		left := volumesOf(all, volume.raw)
		switch {
		case h.Asked && h.Going != "" && slices.Contains(left, h.Going):
			h.trace(c, "volume "+h.Going+" is there", true)
			return nil, nil
		case len(left) == 0:
			h.next()
			h.Emptied = true
			return nil, nil
		}
		h.next()
		h.Going = left[0]
		return func() (string, error) { return order(c, http.MethodDelete, h.Going, nil) }, nil
	})
}

// makeOne asks for disk h.At.
func (r RAID) makeOne(ctx context.Context, t *driver.Task, disk map[string]any, h *building) (waits bool, err error) {
	doing := fmt.Sprintf("make logical disk %d", h.At+1)
	return r.give(ctx, t, doing, h, func(c *gofish.APIClient, all []controller) (func() (string, error), error) {
		var fresh []volume // a volume that is new since an order, also one that seemed to be refused, is that order's
		if h.Asked || h.Had != nil {
			fresh = volumesWithout(all, h.Had)
		}
		same := slices.IndexFunc(fresh, func(v volume) bool { return v.CapacityBytes > 0 && v.differs(h.Want) == "" })
		switch {
		case h.Told && h.Want.Apply == applyAtReset && !h.Due: // what it shows before is not there yet
			h.vain = &vain{effect: "it makes volumes when the machine restarts", later: true, now: true}
			return nil, nil
		case same >= 0:
			if h.Made == nil {
				h.Made = map[string]int{}
			}
			h.Made[fresh[same].Path] = h.At
			h.next()
			return nil, nil
		case len(fresh) > 0:
			h.Asked = true
			effect, later := fmt.Sprintf("volume %s is not as requested: %s", fresh[0].Path, fresh[0].differs(h.Want)), false
			if fresh[0].CapacityBytes <= 0 {
				effect, later = fmt.Sprintf("volume %s has no size", fresh[0].Path), true
			}
			h.trace(c, effect, later)
			return nil, nil
		case h.Asked, h.Had != nil && len(h.fresh(c)) == 1:
			h.Asked = true
			h.trace(c, "no volume is new", h.Want.Apply != applyNow)
			return nil, nil
		}
		want, err := layout(all, disk)
		if err != nil {
			return nil, err
		}
		h.Had, h.Want = append([]string{}, volumesOf(all, nil)...), want
		return func() (string, error) { return order(c, http.MethodPost, want.at, want.body()) }, nil
	})
}

// trace looks for the task of an order that may have been taken. effect says what else shows that it was not.
// later: it may be waiting for a restart.
func (h *building) trace(c *gofish.APIClient, effect string, later bool) {
	fresh := h.fresh(c)
	if len(fresh) == 1 && !h.Told {
		h.Job = fresh[0]
		h.claims.take(h.Job)
		return
	}
	h.vain = &vain{effect: effect, fresh: fresh, later: later}
}

// vain is a look that has not found the traces of an order.
type vain struct {
	effect string
	fresh  []string // tasks that may be the order's
	later  bool     // the BMC may be waiting for a restart of the machine
	now    bool     // it surely is
}

// looked counts a look in vain. A BMC that says that it has done what it does not show may do it when the machine
// restarts: it is restarted once. After that the order has failed.
func (h *building) looked(ctx context.Context, t *driver.Task, doing string) error {
	if !h.Told {
		return h.look(t, doing, h.vain.effect, h.vain.fresh)
	}
	h.Looks++
	switch {
	case !h.vain.now && (!h.Due && h.Looks < looks || h.Due && h.Looks < restarted):
		t.Record.Busy("asked to " + doing + ", its effect does not show yet")
		return nil
	case !h.Due && h.vain.later:
		h.Looks = 0
		return h.stage(ctx, t, fmt.Sprintf("%s: the BMC said that it has done so (%s), and %s", doing, h.Said, h.vain.effect))
	}
	t.Record.Idle()
	return fmt.Errorf("node %s: %s: the BMC said that it has done so (%s), and %s%s. Nothing is reported as made: look at the BMC's log and its volumes, then repeat the request",
		t.Node.Label(), doing, h.Said, h.vain.effect, h.sinceRestart())
}

// give gives the order that next decides on, if any, and saves before that it does.
func (r RAID) give(ctx context.Context, t *driver.Task, doing string, h *building,
	next func(*gofish.APIClient, []controller) (func() (job string, err error), error)) (waits bool, err error) {
	code, asked := 0, false
	h.vain = nil
	err = r.pool.with(ctx, t.Fence, t.Node, doing, func(b *session, a account, c *gofish.APIClient) error {
		all, err := controllers(b, a, c)
		if err != nil {
			return err
		}
		send, err := next(c, all)
		if err != nil || send == nil {
			return err
		}
		h.about(c)
		t.Record.Busy("asked to " + doing)
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return err
		}
		asked = true
		h.Job, err = send()
		h.claims.take(h.Job)
		if code = status(err); code == http.StatusUnauthorized {
			h.Asked = false // the BMC has forgotten the session, and not looked at the order
		}
		return err
	})
	switch {
	case h.vain != nil:
		return true, h.looked(ctx, t, doing)
	case !asked && h.Asked && errors.Is(err, driver.ErrUnreachable):
		return true, nil // it may be at work on it
	case !asked:
		if err == nil && !h.Asked {
			t.Record.Idle()
		}
		return false, err
	}
	taken, err := h.outcome(doing, code, err)
	switch {
	case !taken:
		t.Record.Idle()
		if code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented {
			err = fmt.Errorf("%w: %w", err, driver.ErrUnsupported) // it shows volumes, and changes none
		}
		return false, errors.Join(err, t.Record.SaveHandle(ctx, h))
	case err != nil || h.Said != "" || h.Job != "":
		return true, err
	}
	t.Record.Idle()
	h.told("it made no task for it")
	return false, nil
}

// volumesWithout are the volumes whose paths are not in had.
func volumesWithout(all []controller, had []string) (list []volume) {
	for _, s := range all {
		for _, v := range s.volumes {
			if !slices.Contains(had, v.Path) {
				list = append(list, v)
			}
		}
	}
	return list
}

// volumesOf are the paths of the volumes, but for those that skip names.
func volumesOf(all []controller, skip func(volume) bool) (list []string) {
	for _, s := range all {
		for _, v := range s.volumes {
			if skip == nil || !skip(v) {
				list = append(list, v.Path)
			}
		}
	}
	return list
}
