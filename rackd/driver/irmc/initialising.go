package irmc

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// A controller initialises a new logical drive after it has made it, for hours where the disks are large. The iRMC's report tells how
// far it is, as Ironic has it. The machine has to be on for that: its controller has no power otherwise.

const (
	// initialisingEvery is how often the report is read.
	initialisingEvery = time.Minute
	// initialisingShows is for how long the report may show no logical drive.
	initialisingShows = 30 * time.Minute
	// idle is the activity of a drive that is not initialised any more.
	idle = "Idle"
)

// afterwards brings the machine back to where it was, and waits for the initialisation of drives that were made.
func (r RAID) afterwards(ctx context.Context, t *driver.Task, h *building, save saver) (driver.Outcome, error) {
	off := h.WasOff && t.Facts[driver.FactBoot] != driver.BootRamdisk
	if len(h.Want) == 0 {
		return h.restore(ctx, t, r.Bringup, save)
	}
	if h.Stage == stagePower {
		if err := h.start(ctx, t, off, r.Bringup, save); err != nil || h.Stage == stagePower {
			return driver.Wait(0), err
		}
	}
	far, told, err := r.SCCI.initialising(ctx, t)
	switch {
	case away(err) && t.Since(h.Since) < initialisingShows:
		return driver.Wait(initialisingEvery), nil
	case err == nil && told && far == "" && t.Since(h.Since) < initialisingShows: // else the state's time may be over before
		t.Record.Busy("initialise the logical drives: the report shows none yet")
		return driver.Wait(initialisingEvery), nil
	case err != nil:
		return driver.Outcome{}, err
	case far != idle && far != "":
		t.Record.Busy("initialise the logical drives: " + far)
		return driver.Wait(initialisingEvery), nil
	case far == "":
		t.Record.Phase("RAID", "the logical drives are there; the iRMC's report does not tell how far their initialisation is")
	}
	t.Record.Idle()
	if off {
		return driver.Done(), r.Bringup.Off(ctx, t)
	}
	return driver.Done(), nil
}

// start has the machine on, in the ramdisk where the flow needs that.
func (h *building) start(ctx context.Context, t *driver.Task, off bool, b bringup.Settings, save saver) error {
	if off {
		if err := b.Reach(ctx, t, driver.PowerOn); err != nil {
			return err
		}
	} else {
		out, err := h.restore(ctx, t, b, save)
		if _, waits := out.Waiting(); err != nil || waits {
			return err
		}
	}
	h.Stage, h.Since = stageInitialise, time.Now().UTC()
	return save(ctx)
}

// initialising reads the report. far is what the drives do, Idle for nothing, empty where the report shows none. told: it shows what
// ServerView RAID knows.
func (s *SCCI) initialising(ctx context.Context, t *driver.Task) (far string, told bool, err error) {
	err = s.elcm(ctx, nil, t.Node, "read how far the initialisation of logical drives is", func(e elcm) error {
		answer, err := e.l.talk(ctx, nil, e.as, http.MethodGet, "/report.xml", "", nil)
		switch {
		case err != nil:
			return err
		case answer.Status == http.StatusNotFound:
			return nil
		case answer.Status != http.StatusOK && answer.Status != http.StatusCreated:
			return bmc.StatusFailure(answer.Status, false, http.StatusText(answer.Status), nil)
		}
		far, told, err = readReport(answer.Body)
		far = bmc.Clean(far, e.as.password)
		return err
	})
	return far, told, err
}

// readReport reads the activities of the logical drives.
func readReport(raw []byte) (far string, told bool, err error) {
	var report struct {
		RAID *struct {
			Adapters []struct {
				Drives []struct {
					Number   string `xml:"LogDriveNumber"`
					Activity string
				} `xml:"LogicalDrive"`
			} `xml:"amEMSV>System>Adapter"`
		} `xml:"Software>ServerView>ServerViewRaid"`
	}
	d := xml.NewDecoder(strings.NewReader(string(raw)))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	if err := d.Decode(&report); err != nil {
		return "", false, errors.New("its report is no XML that can be read")
	}
	if report.RAID == nil {
		return "", false, nil
	}
	var list []string
	drives := 0
	for _, a := range report.RAID.Adapters {
		for _, drive := range a.Drives {
			activity := strings.TrimSpace(drive.Activity)
			if activity == "" {
				continue // of that drive nothing is told
			}
			drives++
			if activity != idle && len(list) < 20 {
				list = append(list, fmt.Sprintf("drive %s: %s", drive.Number, activity))
			}
		}
	}
	if drives > 0 && len(list) == 0 {
		return idle, true, nil
	}
	return strings.Join(list, ", "), true, nil
}
