package asrockrack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bmc-toolbox/bmclib/v2/constants"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// lookPause is how often a BMC is looked at that writes firmware.
const lookPause = 10 * time.Second

// handsOver bounds the hand-over of a file, with all that the BMC does for it. The provider wants five minutes for a BMC's own at least.
const handsOver = 30 * time.Minute

// Bounds, in looks that are lookPause apart.
const (
	// vanished is for how many looks in a row the BMC tells no progress until the writing counts as over: it tells none once it is. untold
	// is that of a BMC that has told none yet.
	vanished, untold = 3, 90
	// longest is for how many looks a BMC may write.
	longest = 360
	// shows is how many looks a new version may take to show, once the BMC or the machine was restarted.
	shows = 60
)

// updating is the handle of the step. It is saved before each order and after each end, so that no firmware is written twice.
type updating struct {
	At int `json:"at"` // of the list
	// Asked: the file of update At is about to be handed over, or has been.
	Asked bool `json:"asked,omitempty"`
	// Was is the component's version before.
	Was string `json:"was,omitempty"`
	// Told: the BMC has told that it writes, or has written. Over: it writes no longer.
	Told bool `json:"told,omitempty"`
	Over bool `json:"over,omitempty"`
	// Reset: the BMC was told to restart, with its new firmware.
	Reset bool `json:"reset,omitempty"`
	// Due: the machine is to be restarted, or has been. Boot is the handle of that, and Up says that it is over.
	Due  bool            `json:"restart,omitempty"`
	Boot json.RawMessage `json:"restart_handle,omitempty"`
	Up   bool            `json:"restarted,omitempty"`
	// Looks counts those since the last of these.
	Looks int `json:"looks,omitempty"`
	// Without counts the looks in a row at which the BMC told no progress.
	Without int `json:"without,omitempty"`
	// Noted: Off tells whether the machine was off before the step.
	Noted bool `json:"power_noted,omitempty"`
	Off   bool `json:"was_off,omitempty"`
	// Made are the components that have shown a new version.
	Made []string `json:"made,omitempty"`
}

// next moves on to the next update.
func (h *updating) next() {
	*h = updating{At: h.At + 1, Noted: h.Noted, Off: h.Off, Made: h.Made}
}

// update brings the updates of a list forward, one after the other.
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
		done, err := f.advance(ctx, t, &h, list[h.At])
		if err != nil {
			return driver.Outcome{}, err
		}
		if done {
			t.Record.Idle()
			h.next()
		}
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return driver.Outcome{}, err
		}
		if !done {
			return driver.Wait(lookPause), nil
		}
	}
	now, err := f.device(ctx, t.Node, "read the firmware's versions")
	if errors.Is(err, driver.ErrUnreachable) {
		return driver.Wait(driver.PauseAfter(err, lookPause)), nil
	} else if err != nil {
		return driver.Outcome{}, err
	}
	found := components(now)
	for i, c := range found {
		if slices.Contains(h.Made, c.Name) {
			found[i].Flashed = c.Current
		}
	}
	t.Record.Observe(hardware.Observation{Firmware: found})
	if h.Off {
		return driver.Done(), f.Bringup.Off(ctx, t)
	}
	return driver.Done(), nil
}

// advance brings one update forward by one look.
func (f Firmware) advance(ctx context.Context, t *driver.Task, h *updating, u update) (done bool, err error) {
	doing := "update the firmware of the " + u.component
	switch {
	case !h.Asked:
		return false, f.begin(ctx, t, h, u, doing)
	case !h.Over:
		return false, f.follow(ctx, t, h, u, doing)
	case h.Due && !h.Up:
		return false, f.restart(ctx, t, h)
	}
	return f.verify(ctx, t, h, u, doing)
}

// begin hands the file over, and saves before that it does.
func (f Firmware) begin(ctx context.Context, t *driver.Task, h *updating, u update, doing string) error {
	file, done, err := open(ctx, t, u)
	if err != nil {
		return err
	}
	defer done()
	if !h.Noted {
		state, err := t.Hardware.Power().PowerState(ctx, t.Node)
		if err != nil {
			return fmt.Errorf("read the power state before an update of firmware: %w", err)
		}
		h.Noted, h.Off = true, state == driver.PowerOff && t.Facts[driver.FactBoot] != driver.BootRamdisk
	}
	within, cancel := context.WithTimeout(ctx, handsOver)
	defer cancel()
	sent := false
	err = f.with(within, t.Fence, t.Node, doing, func(s *session) error {
		device, err := s.inventory(within)
		if err != nil {
			return err
		}
		if device.Model == "" {
			return &bmc.Failure{Class: bmc.Unsupported, Said: "no model of its board, so that rackd cannot know that the file is for it"}
		}
		if h.Was = versionOf(device, u.component); h.Was == "" {
			return &bmc.Failure{Class: bmc.Unsupported, Said: "no version of its " + u.component + ", so that rackd could not see whether a file was written"}
		}
		h.Asked = true
		t.Record.Busy("asked to " + doing)
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return err
		}
		err = s.handOver(within, t.Fence, u.component, file)
		sent = s.wire.wrote()
		if err != nil && !unknown(err) {
			s.alone = time.Time{}
			if sent && !errors.Is(err, driver.ErrFenced) && !s.wire.refused(http.StatusUnauthorized) { // a session that is over has begun nothing
				f.leave(within, t, s, u.component)
			}
		}
		return err
	})
	switch {
	case err == nil:
		t.Record.Phase("firmware "+u.component, "the BMC has taken "+u.shown+" and writes it")
		return nil
	case errors.Is(err, driver.ErrUnknown) && !errors.Is(err, driver.ErrFenced) && h.Asked: // it is looked for
		t.Record.Phase("firmware in doubt: "+u.component, "the BMC has not answered an order of the update; rackd looks what it does, and hands nothing over again")
		return nil
	case h.Asked && (!sent || !errors.Is(err, driver.ErrFenced)): // it was refused
		h.Asked = false
		t.Record.Idle()
		return errors.Join(err, t.Record.SaveHandle(ctx, h))
	}
	return err
}

// unknown reports whether an order of the provider's has left and was not answered.
func unknown(err error) bool {
	lost, gone := errors.AsType[*bmc.Lost](err)
	f, answered := errors.AsType[*bmc.Failure](err)
	return gone && lost.Unknown || answered && f.Class == bmc.Unknown
}

// open opens the file of an update, which the rack fetches and compares with its checksum first.
func open(ctx context.Context, t *driver.Task, u update) (file *os.File, done func(), err error) {
	fetch := "fetch the firmware " + u.shown
	if _, err := t.Images.Prepare(ctx, u.source); err != nil {
		return nil, nil, fmt.Errorf("node %s: %s: %w", t.Node.Label(), fetch, err)
	}
	files, has := t.Images.(driver.ImageFiles)
	if !has {
		return nil, nil, fmt.Errorf("node %s: %s: this rackd keeps no images: %w", t.Node.Label(), fetch, driver.ErrUnsupported)
	}
	if file, done, err = files.File(u.source.ID()); err != nil {
		return nil, nil, fmt.Errorf("node %s: %s: open it: %w", t.Node.Label(), fetch, err)
	}
	return file, done, nil
}

// handOver gives the BMC a file and has it written. The provider does the latter for a BIOS in the same call.
func (s *session) handOver(ctx context.Context, f driver.Fence, component string, file *os.File) error {
	s.wire.begin(ctx, f)
	s.wire.slow = true
	if component == bmcs {
		s.alone = time.Now().Add(longest * lookPause)
	}
	if _, err := s.api.FirmwareUpload(ctx, component, file); err != nil {
		return s.wire.sorted(err)
	}
	if component != bmcs {
		return nil
	}
	_, err := s.api.FirmwareInstallUploaded(ctx, component, "")
	return s.wire.sorted(err)
}

// leave has a BMC that took no file leave the mode in which it takes one: it restarts.
func (f Firmware) leave(ctx context.Context, t *driver.Task, s *session, component string) {
	if component != bmcs {
		return
	}
	s.wire.begin(ctx, t.Fence)
	if err := f.reset(ctx, s); err != nil {
		t.Record.Phase("BMC reset", "the BMC took no firmware, and rackd could not have it restart: "+bmc.Clean(err.Error(), s.wire.hidden...))
		return
	}
	t.Record.Phase("BMC reset", "the BMC took no firmware, and restarts to leave the mode for it")
}

// follow looks how far the BMC is.
func (f Firmware) follow(ctx context.Context, t *driver.Task, h *updating, u update, doing string) error {
	far, over := "", false
	err := f.during(ctx, nil, t.Node, doing, func(s *session) (err error) {
		far, over, err = s.progress(ctx, u.component, h.Was)
		return err
	})
	h.Looks++
	switch {
	case errors.Is(err, driver.ErrFenced):
		return err
	case err != nil && h.Looks >= longest:
		t.Record.Idle()
		return fmt.Errorf("%w. It got the file %s before that: look at the board, which may need its standby power cut", err, u.shown)
	case err != nil && !away(err):
		return err
	case err != nil: // it writes its own firmware, or restarts with it
		t.Record.Busy("it does not answer after its order to " + doing)
		return nil
	case far != "" && !over:
		h.Told, h.Without = true, 0
		if h.Looks >= longest {
			t.Record.Idle()
			return fmt.Errorf("node %s: %s: the BMC says after %s that it is not over (%s): look at its log", t.Node.Label(), doing, longest*lookPause, far)
		}
		t.Record.Busy(far)
		return nil
	case far == "" && !over:
		most := untold
		if h.Told {
			most = vanished
		}
		if h.Without++; h.Without < most {
			t.Record.Busy("it tells no progress of its order to " + doing)
			return nil
		}
	default:
		h.Told = true
	}
	h.Over, h.Looks = true, 0
	if u.component == bmcs {
		return nil
	}
	t.Record.Idle()
	t.Record.Phase("restart needed", "the BMC has ended the update of the BIOS, which counts when the machine starts")
	h.Due = true
	return nil
}

// away reports whether a BMC that writes its firmware may end a look with err: it is silent, or lets no one in for that time.
func away(err error) bool {
	return errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrUnknown)
}

// noProgress is the provider's text of a BMC that answers, and tells no progress.
const noProgress = "action: , progress: "

// progress reads how far the BMC is, empty where it does not tell. over: it has written, or shows another version than before.
func (s *session) progress(ctx context.Context, component, was string) (far string, over bool, err error) {
	state, far, err := s.api.FirmwareTaskStatus(ctx, constants.FirmwareInstallStepInstallStatus, component, "", was)
	if len(s.wire.seen) > 0 && s.wire.seen[0].status == http.StatusUnauthorized { // this question alone is answered in that mode
		s.alone = time.Time{}
		return "", false, bmc.Forgotten(&bmc.Failure{Class: bmc.Unreachable, Said: "it has restarted, and does not know the session"})
	}
	if lost := s.wire.lost(); lost != nil {
		return "", false, lost
	}
	if far == noProgress {
		far = ""
	}
	switch {
	case far == "" && err == nil && state == constants.Running: // the provider's word for another version than was
		return "", true, nil
	case far == "":
		return "", false, nil
	case state == constants.Complete, strings.Contains(far, "100% done"): // some go on to say that they are at it
		return far, true, nil
	}
	return strings.Join(strings.Fields(s.wire.clean(far)), " "), false, nil
}

// restart restarts the machine, once.
func (f Firmware) restart(ctx context.Context, t *driver.Task, h *updating) error {
	if h.Boot == nil && t.HandsOff() {
		return nil
	}
	part := *t
	part.Record = driver.Part{Recorder: t.Record, Kept: &h.Boot, Save: func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }}
	out, err := f.Bringup.Restart(ctx, &part)
	if err != nil {
		return fmt.Errorf("restart the machine, which shows its new BIOS only then: %w", err)
	}
	if _, waits := out.Waiting(); !waits {
		h.Up, h.Looks = true, 0
	}
	return nil
}

// verify reads the version once the BMC has written. A BMC is told to restart first, unless it has done so by itself. What does not show
// another version than before is made only where the BMC itself has told that it has written: the file may hold that version.
func (f Firmware) verify(ctx context.Context, t *driver.Task, h *updating, u update, doing string) (done bool, err error) {
	now := ""
	err = f.during(ctx, t.Fence, t.Node, doing, func(s *session) error {
		if u.component == bmcs && !h.Reset {
			return f.restartBMC(ctx, t, h, s)
		}
		s.alone = time.Time{}
		device, err := s.inventory(ctx)
		if err == nil {
			now = versionOf(device, u.component)
		}
		return err
	})
	h.Looks++
	switch {
	case errors.Is(err, driver.ErrFenced), err != nil && !away(err), err != nil && h.Looks > shows:
		return false, err
	case err != nil:
		t.Record.Busy("it does not answer after its order to " + doing)
		return false, nil
	case now != "" && now != h.Was:
		h.Made = append(h.Made, u.component)
		t.Record.Phase("firmware "+u.component, "it shows version "+now+" in place of "+h.Was)
		return true, nil
	case h.Looks <= shows:
		t.Record.Busy(fmt.Sprintf("the %s does not show another version than %s yet", u.component, h.Was))
		return false, nil
	}
	t.Record.Idle()
	if !h.Told || now == "" {
		return false, fmt.Errorf("node %s: %s: nothing tells that the BMC has written %s: it told no progress, and the %s shows version %q, as before. Look at its log, and repeat the request if nothing was written",
			t.Node.Label(), doing, u.shown, u.component, now)
	}
	t.Record.Phase("firmware unchanged: "+u.component, fmt.Sprintf("it still shows version %s, and the BMC told that it has written: either %s holds that version, or the BMC has not taken it", now, u.shown))
	return true, nil
}

// restartBMC has a BMC start its new firmware. One that shows it has restarted. An order that was not answered is given again: a BMC that
// has not got it knows this session still, and no other one.
func (f Firmware) restartBMC(ctx context.Context, t *driver.Task, h *updating, s *session) error {
	device, err := s.inventory(ctx)
	if shown := ""; err == nil {
		if shown = versionOf(device, bmcs); shown != "" && shown != h.Was {
			h.Reset = true
			return nil
		}
	}
	t.Record.Busy("the BMC restarts with its new firmware")
	s.wire.begin(ctx, t.Fence)
	if err = f.reset(ctx, s); err == nil {
		h.Reset, h.Looks = true, 0
	}
	return err
}
