package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
)

// building is the handle of a step. It is saved before each order, so that no volume is made or
// deleted twice.
type building struct {
	Emptied bool   `json:"emptied,omitempty"` // what there was is deleted, if it was to be
	At      int    `json:"at"`                // of the logical disks
	Job     string `json:"job,omitempty"`     // that deletes a volume or makes disk At
	// Had are the volumes before the order for disk At: a new one shows that it was taken.
	Had []string `json:"had"`
	// The order for disk At, or for the deletion of volume Going.
	ordered
	Going string `json:"going,omitempty"`
	// Staged are the volumes that go when the machine restarts. Later says that something waits
	// for a restart.
	Staged []string `json:"staged,omitempty"`
	Later  bool     `json:"later,omitempty"`

	vain *vain // of the look just taken
}

// ended notes that the order was carried out, or waits for a restart. A deletion counts only once its
// volume is gone: until then the order stays noted.
func (h *building) ended(is progress) {
	h.Later = h.Later || is == staged
	switch {
	case h.Emptied:
		h.At, h.ordered, h.Had = h.At+1, ordered{}, nil
	case is == staged:
		h.Staged, h.ordered, h.Going = append(h.Staged, h.Going), ordered{}, ""
	default:
		h.Said = "it said that it has done so"
		if h.Job != "" {
			h.Tasks = append(h.Tasks, h.Job)
		}
	}
	h.Job = ""
}

// bring deletes volumes, if that is asked for, and makes those of config.
func (r RAID) bring(ctx context.Context, t *driver.Task, config map[string]any) (driver.Outcome, error) {
	var disks []any
	if config != nil {
		if err := r.CheckRAID(t.Node, config); err != nil {
			return driver.Outcome{}, err
		}
		disks = chosen(config["logical_disks"].([]any), t.Args)
	}
	var h building
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of the RAID configuration cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	h.Emptied = h.Emptied || config != nil && t.Args["delete_existing"] != true
	for !h.Emptied || h.At < len(disks) {
		waits, err := r.advance(ctx, t, disks, &h)
		if err != nil {
			return driver.Outcome{}, err
		}
		if waits {
			return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
		}
	}
	if h.Later {
		// What waits for a restart is not told as made.
		t.Record.Phase("raid", "the new configuration takes effect when the machine restarts")
		return driver.Done(), nil
	}
	made := map[string]any{}
	if len(disks) > 0 {
		made = map[string]any{"logical_disks": disks, "last_updated": time.Now().UTC().Format(time.DateTime)}
	}
	t.Record.Observe(hardware.Observation{RAID: made})
	return driver.Done(), nil
}

// advance follows the order that runs, or gives the next.
func (r RAID) advance(ctx context.Context, t *driver.Task, disks []any, h *building) (waits bool, err error) {
	switch {
	case h.Job != "":
		is, err := r.job(ctx, t, "change the volumes", h.Job)
		if err == nil && is != running {
			h.ended(is)
		}
		return is == running, err
	case !h.Emptied:
		return r.deleteOne(ctx, t, h)
	}
	return r.makeOne(ctx, t, disks[h.At].(map[string]any), h)
}

// deleteOne deletes a volume, or notes that there is none left.
func (r RAID) deleteOne(ctx context.Context, t *driver.Task, h *building) (waits bool, err error) {
	const doing = "delete a volume"
	return r.give(ctx, t, doing, h, func(c *gofish.APIClient, all []controller) (func() (string, error), error) {
		left := slices.DeleteFunc(volumesOf(all, volume.raw), func(v string) bool { return slices.Contains(h.Staged, v) })
		switch {
		case h.Asked && h.Going != "" && slices.Contains(left, h.Going):
			h.trace(c, "volume "+h.Going+" is there")
			return nil, nil
		case len(left) == 0:
			h.Emptied, h.ordered, h.Going = true, ordered{}, ""
			return nil, nil
		}
		h.ordered = ordered{}
		h.Going = left[0]
		return func() (string, error) { return order(c, http.MethodDelete, h.Going, nil) }, nil
	})
}

// makeOne asks for disk h.At.
func (r RAID) makeOne(ctx context.Context, t *driver.Task, disk map[string]any, h *building) (waits bool, err error) {
	doing := fmt.Sprintf("make logical disk %d", h.At+1)
	return r.give(ctx, t, doing, h, func(c *gofish.APIClient, all []controller) (func() (string, error), error) {
		there := volumesOf(all, nil)
		// A volume that is new since an order that seemed to be refused is that order's.
		made := (h.Asked || h.Had != nil) && slices.ContainsFunc(there, func(v string) bool { return !slices.Contains(h.Had, v) })
		switch {
		case made:
			h.ended(done)
			return nil, nil
		case h.Asked, h.Had != nil && len(h.fresh(c)) == 1:
			h.trace(c, "no volume is new")
			return nil, nil
		}
		at, body, err := layout(all, disk)
		if err != nil {
			return nil, err
		}
		h.Had = append([]string{}, there...)
		return func() (string, error) { return order(c, http.MethodPost, at, body) }, nil
	})
}

// trace looks for the task of an order that may have been taken. effect says what else shows that it
// was not.
func (h *building) trace(c *gofish.APIClient, effect string) {
	fresh := h.fresh(c)
	if len(fresh) == 1 {
		h.Job = fresh[0]
		return
	}
	h.vain = &vain{effect, fresh}
}

// vain is a look that has not found the traces of an order.
type vain struct {
	effect string
	fresh  []string // tasks that may be the order's
}

// give gives the order that next decides on, if any, and saves before that it does.
func (r RAID) give(ctx context.Context, t *driver.Task, doing string, h *building,
	next func(*gofish.APIClient, []controller) (func() (job string, err error), error)) (waits bool, err error) {
	code, asked := 0, false
	h.vain = nil
	err = r.pool.with(ctx, t.Fence, t.Node, doing, func(b *bmc, a account, c *gofish.APIClient) error {
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
		code = status(err)
		return err
	})
	switch {
	case h.vain != nil:
		return true, h.look(t, doing, h.vain.effect, h.vain.fresh)
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
		return false, errors.Join(err, t.Record.SaveHandle(ctx, h))
	case err != nil || h.Said != "" || h.Job != "":
		return true, err
	}
	t.Record.Idle()
	h.ended(done)
	return false, nil
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
