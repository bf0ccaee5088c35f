package idrac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Management is the management interface of machines with an iDRAC: that of Redfish, with Dell's steps.
type Management struct {
	redfish.Management
	// Store keeps configuration profiles; nil: there is no place for them.
	Store Store
}

// look is how often the iDRAC is asked for what it is at.
const look = 10 * time.Second

// Bounds, in looks.
const (
	// readies is for how many looks the Lifecycle Controller may take to be ready after a reset.
	readies = 96
	// clears is how many looks the queue may take to be empty.
	clears = 12
)

// NamedSteps lists Redfish's steps and Dell's, which Ironic has by these names.
func (m Management) NamedSteps(n *node.Document) []driver.Step {
	step := func(name string, in driver.Flows, kind driver.StepKind, run func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step {
		return driver.Step{Interface: "management", Name: name, In: in, Kind: kind, Retries: 4, Pause: look, NoRamdisk: true, Run: run}
	}
	const both = driver.InClean | driver.InVerify
	list := append(m.Management.NamedSteps(n),
		step("clear_job_queue", both, driver.Reattachable, m.clearJobQueue),
		step("reset_idrac", both, driver.Reattachable, m.resetIDRAC),
		step("known_good_state", both, driver.Reattachable, m.knownGoodState))
	return append(list, m.profileSteps()...)
}

// clearing is the handle of the step that clears the job queue.
type clearing struct {
	Asked bool `json:"asked,omitempty"`
	Looks int  `json:"looks,omitempty"`
}

// clearJobQueue deletes all jobs. It is over when the queue is empty.
func (m Management) clearJobQueue(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "clear the job queue"
	var h clearing
	if err := handle(t, doing, &h); err != nil {
		return driver.Outcome{}, err
	}
	var left []job
	err := m.Turn(ctx, t.Fence, t.Node, doing, func(turn *redfish.Turn) error {
		k, err := managerOf(turn)
		if err != nil {
			return err
		}
		clear, err := serviceAction(turn, k.Links.Oem.Dell.DellJobService, "DellJobService", "DeleteJobQueue")
		if err != nil {
			return err
		}
		if left, err = jobs(turn, k); err != nil || len(left) == 0 || h.Asked {
			return err
		}
		// To delete what is deleted already is harmless, so an order without an answer is given again.
		if _, err = turn.Order(clear.Target, map[string]any{"JobID": "JID_CLEARALL"}); err == nil {
			h.Asked = true
		}
		return err
	})
	switch {
	case err != nil:
		return driver.Outcome{}, err
	case len(left) == 0:
		t.Record.Phase("job queue", "empty")
		return driver.Done(), nil
	}
	if h.Looks++; h.Looks > clears {
		return driver.Outcome{}, fmt.Errorf("node %s: %s: the iDRAC accepted it, and %s later its queue still holds %s: run reset_idrac, then this step again",
			t.Node.Label(), doing, clears*look, names(t.Node, left))
	}
	return driver.Wait(look), t.Record.SaveHandle(ctx, h)
}

// handle reads the step's handle.
func handle(t *driver.Task, doing string, into any) error {
	raw := t.Record.Handle()
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("node %s: %s: the handle %q of the step cannot be read: %w", t.Node.Label(), doing, raw, err)
	}
	return nil
}

// resettingIDRAC is the handle of the step that resets the iDRAC.
type resettingIDRAC struct {
	Reset json.RawMessage `json:"reset,omitempty"`
	// Back: the iDRAC answers again. Looks is how often its Lifecycle Controller was not ready since.
	Back  bool `json:"back,omitempty"`
	Looks int  `json:"looks,omitempty"`
}

// resetIDRAC restarts the iDRAC. It is over when its Lifecycle Controller is ready.
func (m Management) resetIDRAC(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "reset the iDRAC"
	var h resettingIDRAC
	if err := handle(t, doing, &h); err != nil {
		return driver.Outcome{}, err
	}
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }
	if !h.Back {
		part := *t
		part.Record = driver.Part{Recorder: t.Record, Kept: &h.Reset, Save: save}
		out, err := m.ResetBMC(ctx, &part, resetOrder)
		if err != nil {
			return driver.Outcome{}, err
		}
		if _, waits := out.Waiting(); waits {
			return out, nil
		}
		h.Back = true
		if err := save(ctx); err != nil {
			return driver.Outcome{}, err
		}
	}
	ready, err := m.ready(ctx, t)
	h.Looks++
	switch {
	case err == nil && ready:
		return driver.Done(), nil
	case err != nil && !errors.Is(err, driver.ErrUnreachable):
		return driver.Outcome{}, err
	case h.Looks >= readies && err != nil:
		return driver.Outcome{}, err
	case h.Looks >= readies:
		return driver.Outcome{}, fmt.Errorf("node %s: %s: it answers again, and %s later its Lifecycle Controller is still not ready: look at its log", t.Node.Label(), doing, readies*look)
	}
	return driver.Wait(driver.PauseAfter(err, look)), save(ctx)
}

// resetOrder is Dell's action, else the standard's.
func resetOrder(t *redfish.Turn) (string, any, error) {
	m, err := managerOf(t)
	if err != nil {
		return "", nil, err
	}
	reset, err := serviceAction(t, m.Links.Oem.Dell.CardService, "DelliDRACCardService", "iDRACReset")
	if err != nil {
		return "", nil, err
	}
	if reset.Force != nil && !slices.Contains(reset.Force, "Graceful") {
		return "", nil, fmt.Errorf("it allows the resets %v, not Graceful: %w", reset.Force, driver.ErrUnsupported)
	}
	return reset.Target, map[string]any{"Force": "Graceful"}, nil
}

// ready reports whether the Lifecycle Controller takes orders. An iDRAC that does not tell is ready.
func (m Management) ready(ctx context.Context, t *driver.Task) (is bool, err error) {
	err = m.Turn(ctx, t.Fence, t.Node, "ask whether the Lifecycle Controller is ready", func(turn *redfish.Turn) error {
		k, err := managerOf(turn)
		if err != nil {
			return err
		}
		status, err := serviceAction(turn, k.Links.Oem.Dell.DellLCService, "DellLCService", "GetRemoteServicesAPIStatus")
		if errors.Is(err, driver.ErrUnsupported) {
			is = true
			return nil
		}
		if err != nil {
			return err
		}
		var told struct{ LCStatus string }
		err = turn.Call(status.Target, map[string]any{}, &told)
		is = told.LCStatus == "Ready"
		return err
	})
	return is, err
}

// settling is the handle of known_good_state.
type settling struct {
	Reset json.RawMessage `json:"reset,omitempty"`
	Clear json.RawMessage `json:"clear,omitempty"`
	// Fresh: the iDRAC has been reset.
	Fresh bool `json:"fresh,omitempty"`
}

// knownGoodState resets the iDRAC and clears its job queue.
func (m Management) knownGoodState(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var h settling
	if err := handle(t, "bring the iDRAC to its known good state", &h); err != nil {
		return driver.Outcome{}, err
	}
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }
	part := *t
	if !h.Fresh {
		part.Record = driver.Part{Recorder: t.Record, Kept: &h.Reset, Save: save}
		out, err := m.resetIDRAC(ctx, &part)
		if _, waits := out.Waiting(); err != nil || waits {
			return out, err
		}
		h.Fresh = true
		if err := save(ctx); err != nil {
			return driver.Outcome{}, err
		}
	}
	part.Record = driver.Part{Recorder: t.Record, Kept: &h.Clear, Save: save}
	return m.clearJobQueue(ctx, &part)
}
