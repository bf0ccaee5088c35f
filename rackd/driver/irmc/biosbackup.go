package irmc

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// A BIOS loses its settings with firmware, or with another board. One step has the iRMC read them out of the machine and keeps them with
// the node, another puts them back. The iRMC restarts the machine for both, and may leave it off.
// Names are Ironic's, whose deploys begin with the first.

const (
	backupBIOS  = "backup_bios_config"
	restoreBIOS = "restore_irmc_bios_config"
)

const (
	// sessionEvery is how often a session is looked at.
	sessionEvery = 10 * time.Second
	// sessionShows is for how long an order without an answer may show no session. An iRMC may take 5 minutes to answer one.
	sessionShows = 6 * time.Minute
	// sessionLasts is for how long it may go on, Ironic's default.
	sessionLasts = 30 * time.Minute
	// maxBIOS bounds what is kept of a BIOS, as JSON and packed.
	maxBIOS       = 1 << 20
	maxPackedBIOS = 64 << 10
)

// keptBIOS is what is kept of a node (driver.Keeper): its BIOS's settings, packed.
type keptBIOS struct {
	Settings string `json:"irmc_bios_config,omitempty"`
}

// biosSteps are those of Ironic's iRMC driver. Neither runs by itself.
func (i Interface) biosSteps() []driver.Step {
	step := func(name string, in driver.Flows, run func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step {
		return driver.Step{Interface: "management", Name: name, In: in, Kind: driver.Reattachable, Retries: 4, Pause: 10 * time.Second, NoRamdisk: true, Run: run}
	}
	return []driver.Step{step(backupBIOS, 0, i.backupBIOS), step(restoreBIOS, driver.InClean|driver.InService, i.restoreBIOS)}
}

// session is the handle of both steps. It is saved before the order, which is given once.
type session struct {
	Asked bool `json:"asked,omitempty"`
	// Others are the sessions that the iRMC listed before; ID is that of the order.
	Others []string  `json:"others,omitempty"`
	ID     string    `json:"session,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Ended: the session has ended well. What follows is the machine's power.
	Ended bool `json:"ended,omitempty"`
	// Noted: WasOff tells the power before.
	Noted  bool            `json:"power_noted,omitempty"`
	WasOff bool            `json:"was_off,omitempty"`
	Boot   json.RawMessage `json:"restart_handle,omitempty"`
}

// backupBIOS keeps the settings of the machine's BIOS.
func (i Interface) backupBIOS(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	return i.run(ctx, t, "back up the BIOS's settings", elcm.readOut, func(e elcm) (bool, error) {
		var settings json.RawMessage
		there, err := e.read(profilesAt+biosProfile, &settings)
		if err == nil && !there {
			err = errors.New("its session has ended well, and there is no profile of the BIOS")
		}
		if err == nil {
			_, err = executed(settings)
		}
		if err != nil {
			return false, err
		}
		packed, err := pack(settings)
		if err != nil || i.bios.Of(t.Node).Settings == packed {
			return true, err
		}
		i.bios.Change(t.Node, func(k *keptBIOS) { k.Settings = packed })
		t.Record.Phase("BIOS backup", fmt.Sprintf("%d bytes are kept with the node, until %s puts them back", len(settings), restoreBIOS))
		return false, nil
	})
}

// restoreBIOS puts back what is kept, and forgets it then.
func (i Interface) restoreBIOS(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "restore the BIOS's settings"
	packed := i.bios.Of(t.Node).Settings
	if packed == "" && t.Record.Handle() == nil {
		return driver.Outcome{}, driver.Refuse("node %s: %s: no backup of them is kept. Step %s makes one.", t.Node.Label(), doing, backupBIOS)
	}
	return i.run(ctx, t, doing, func(e elcm) (string, error) {
		settings, err := unpack(packed)
		if err == nil {
			settings, err = executed(settings)
		}
		if err != nil {
			return "", fmt.Errorf("the backup that is kept: %w", err)
		}
		return e.putIn(settings)
	}, func(elcm) (bool, error) {
		if i.bios.Of(t.Node).Settings == "" {
			return true, nil
		}
		i.bios.Change(t.Node, func(k *keptBIOS) { k.Settings = "" })
		t.Record.Phase("BIOS restored", "the iRMC has ended it well")
		return false, nil
	})
}

// executed is a profile of the BIOS that is to be carried out.
func executed(profile []byte) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(profile, &whole); err != nil {
		return nil, fmt.Errorf("the profile is no JSON that can be read: %w", err)
	}
	at := whole
	for _, name := range []string{"Server", "SystemConfig", biosProfile} {
		inner, is := at[name].(map[string]any)
		if !is {
			return nil, fmt.Errorf("the profile has no %s", name)
		}
		at = inner
	}
	at["@Processing"] = "execute"
	return json.Marshal(whole)
}

// run gives an order that begins a session, and follows it to its end. done is called when it has ended well, again until it says that
// there was nothing left to keep: central is told between two runs.
func (i Interface) run(ctx context.Context, t *driver.Task, doing string, give func(elcm) (string, error), done func(elcm) (over bool, err error)) (driver.Outcome, error) {
	var h session
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: %s: the handle %q of the step cannot be read: %w", t.Node.Label(), doing, raw, err)
		}
	}
	switch {
	case h.Ended:
		return i.power(ctx, t, &h)
	case h.ID != "":
		return i.follow(ctx, t, doing, &h, done)
	case h.Asked:
		return i.lookBack(ctx, t, doing, &h)
	}
	if !h.Noted {
		state, err := t.Hardware.Power().PowerState(ctx, t.Node)
		if err != nil {
			return driver.Outcome{}, fmt.Errorf("read the power state before: %w", err)
		}
		h.Noted, h.WasOff = true, state == driver.PowerOff
	}
	err := i.scci.elcm(ctx, t.Fence, t.Node, doing, func(e elcm) (err error) {
		if err := e.dropProfile(); err != nil {
			return err
		}
		if h.Others, err = e.sessions(); err != nil {
			return err
		}
		t.Record.Busy(doing)
		h.Asked, h.Since = true, time.Now().UTC()
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return err
		}
		h.ID, err = give(e)
		return err
	})
	switch {
	case errors.Is(err, driver.ErrUnknown):
		return driver.Wait(sessionEvery), nil // its session is looked for
	case err != nil && h.Asked && !errors.Is(err, driver.ErrFenced):
		t.Record.Idle()
		h.Asked = false // it was refused, or was not sent
		return driver.Outcome{}, errors.Join(err, t.Record.SaveHandle(ctx, h))
	case err != nil:
		return driver.Outcome{}, err
	case h.ID == "":
		return driver.Wait(sessionEvery), nil
	}
	return driver.Wait(sessionEvery), t.Record.SaveHandle(ctx, h)
}

// lookBack looks for the session of an order whose answer was lost: the only one that is new. One that has ended stays in the list.
func (i Interface) lookBack(ctx context.Context, t *driver.Task, doing string, h *session) (driver.Outcome, error) {
	var fresh []string
	err := i.scci.elcm(ctx, nil, t.Node, doing, func(e elcm) error {
		now, err := e.sessions()
		fresh = slices.DeleteFunc(now, func(s string) bool { return slices.Contains(h.Others, s) })
		return err
	})
	switch {
	case away(err):
		return driver.Wait(sessionEvery), nil
	case err != nil:
		return driver.Outcome{}, err
	case len(fresh) == 1:
		h.ID = fresh[0]
		return driver.Wait(sessionEvery), t.Record.SaveHandle(ctx, *h)
	case len(fresh) > 1:
		return driver.Outcome{}, fmt.Errorf("node %s: %s: it is not known which of the new sessions %q is that of the order, whose answer was lost. Rackd does not repeat it: look at the iRMC's sessions, let them end, then repeat the request", t.Node.Label(), doing, fresh)
	case t.Since(h.Since) < sessionShows:
		return driver.Wait(sessionEvery), nil
	}
	h.Asked = false // the iRMC has not taken it
	return driver.Wait(sessionEvery), t.Record.SaveHandle(ctx, *h)
}

// follow looks at the session.
func (i Interface) follow(ctx context.Context, t *driver.Task, doing string, h *session, done func(elcm) (bool, error)) (driver.Outcome, error) {
	var status, log string
	var there, over bool
	err := i.scci.elcm(ctx, nil, t.Node, doing, func(e elcm) (err error) {
		if status, there, err = e.status(h.ID); err != nil || !there {
			return err
		}
		switch status {
		case sessionActivated, sessionRuns:
			return nil
		case sessionEnded:
			over, err = done(e)
			return err
		}
		log = e.log(h.ID)
		return nil
	})
	switch running := status == sessionActivated || status == sessionRuns; {
	case away(err) && t.Since(h.Since) < sessionLasts:
		return driver.Wait(sessionEvery), nil
	case err != nil:
		return driver.Outcome{}, err
	case !there:
		t.Record.Idle()
		return driver.Outcome{}, fmt.Errorf("node %s: %s: the iRMC no longer knows its session %s, and does not say how it ended: look at its log", t.Node.Label(), doing, h.ID)
	case running && t.Since(h.Since) > sessionLasts: // it may write to the BIOS: the machine is to keep its power
		return driver.Outcome{}, fmt.Errorf("node %s: %s: session %s has been %s for %s: look at the iRMC", t.Node.Label(), doing, h.ID, status, sessionLasts)
	case running:
		t.Record.Busy(fmt.Sprintf("%s: session %s is %s", doing, h.ID, status))
		return driver.Wait(sessionEvery), nil
	case status != sessionEnded:
		t.Record.Idle()
		return driver.Outcome{}, fmt.Errorf("node %s: %s: session %s is %q: %s", t.Node.Label(), doing, h.ID, status, log)
	}
	if !over {
		t.Keep()
		return driver.Wait(time.Second), nil
	}
	t.Record.Idle()
	h.Ended = true
	if err := t.Record.SaveHandle(ctx, *h); err != nil {
		return driver.Outcome{}, err
	}
	// What is left at the iRMC costs room only.
	if err := i.scci.elcm(ctx, t.Fence, t.Node, doing, func(e elcm) error { return errors.Join(e.forget(h.ID), e.dropProfile()) }); errors.Is(err, driver.ErrFenced) {
		return driver.Outcome{}, err
	} else if err != nil {
		t.Record.Phase("left at the iRMC", driver.Unnamed(t.Node, err).Error())
	}
	return i.power(ctx, t, h)
}

// away: the iRMC cannot answer just now. Its session goes on.
func away(err error) bool {
	return errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced)
}

// power brings the machine back into the state that it had, or into the ramdisk: the iRMC has restarted it, or has left it off.
func (i Interface) power(ctx context.Context, t *driver.Task, h *session) (driver.Outcome, error) {
	b := i.Management.Bringup
	switch {
	case t.Facts[driver.FactBoot] == driver.BootRamdisk:
		part := *t
		part.Record = driver.Part{Recorder: t.Record, Kept: &h.Boot, Save: func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }}
		return b.Restart(ctx, &part)
	case h.WasOff:
		return driver.Done(), b.Off(ctx, t)
	}
	return driver.Done(), b.Reach(ctx, t, driver.PowerOn)
}

// pack makes a text of settings that is fit to be kept.
func pack(settings []byte) (string, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(settings)
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	if len(settings) > maxBIOS || b.Len() > maxPackedBIOS {
		return "", fmt.Errorf("the profile of the BIOS has %d bytes, packed %d, more than are kept with a node (%d, %d)", len(settings), b.Len(), maxBIOS, maxPackedBIOS)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// unpack is the reverse of pack.
func unpack(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	settings, err := io.ReadAll(io.LimitReader(r, maxBIOS+1))
	if err == nil && len(settings) > maxBIOS {
		err = errors.New("it is too large")
	}
	return settings, err
}

// keepsOf is what the drivers of an interface keep of a node, one after the other: each leaves what the others keep.
func keepsOf(n *node.Document, list ...driver.Keeper) (kept json.RawMessage) {
	with := *n
	for _, k := range list {
		if now := k.Kept(&with); now != nil {
			kept, with.Kept = now, now
		}
	}
	return kept
}

// newBIOS is the memory of the backups.
func newBIOS() *bmc.Keeping[keptBIOS] { return &bmc.Keeping[keptBIOS]{Counter: "irmc_bios_changes"} }
