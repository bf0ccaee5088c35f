package mediaboot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

var _ driver.InstanceLoader = Interface{}

// loading is a machine whose firmware loads a URL.
type loading struct {
	*bmc
	is   ask.BootDevice
	sets []string
}

func (l *loading) BootDevice(context.Context, *node.Document) (ask.BootDevice, error) {
	return l.is, nil
}

func (l *loading) SetHTTPBoot(_ context.Context, f driver.Fence, _ *node.Document, url string, persistent bool) error {
	l.is = ask.BootDevice{Device: "uefihttp", Persistent: &persistent}
	l.sets = append(l.sets, fmt.Sprint(url, " ", persistent))
	return f.Check()
}

func (l *loading) SetBootDevice(_ context.Context, f driver.Fence, _ *node.Document, d driver.BootDevice, persistent bool) error {
	l.is = ask.BootDevice{Device: string(d), Persistent: &persistent}
	l.sets = append(l.sets, fmt.Sprint(d, " ", persistent))
	return f.Check()
}

func loadingTask(t *testing.T, info map[string]any) (*drivertest.Rig, *driver.Task, *loading, *server) {
	t.Helper()
	r, k, b, s := instanceTask(t, info, "", "CD/DVD")
	l := &loading{bmc: b}
	managedBy(t, k, l)
	return r, k, l, s
}

// bootSet is what is told of the device for all starts.
func bootSet(r *drivertest.Rig) string {
	if r.Observed.BootSet == nil {
		return "nothing"
	}
	return *r.Observed.BootSet
}

// Of what firmware loads at each start the node's document learns, which knows another device of before. At the instance's end it learns
// of the disk again, although that is what it shows for as long as the flow lasts. Of what is set for one start it learns that no device is
// held: the one before would take its place.
func TestWhatFirmwareLoadsIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		info       map[string]any
		persist    string
		sets       []string
		told, over string
	}{
		"an image":               {map[string]any{fieldInstance: instanceISO}, "", []string{instanceISO + " true"}, "uefihttp", "disk"},
		"kernel and ramdisk":     {ownFiles(), "", []string{cd + " true"}, "uefihttp", "disk"},
		"an image for one start": {map[string]any{fieldInstance: instanceISO}, "Never", []string{instanceISO + " false"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, k, l, _ := loadingTask(t, c.info)
			k.Node.BootSet, k.Node.DriverInfo = "disk", map[string]any{persistField: c.persist}
			i := HTTPBoot(fine)
			if _, makes := instanceLoad(k.Node); makes {
				if err := i.ReadyInstance(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			if err := i.PrepareInstance(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(l.sets, c.sets) || bootSet(r) != c.told {
				t.Errorf("the BMC was told %q, want %q; the node's document learns of %q, want %q", l.sets, c.sets, bootSet(r), c.told)
			}
			if err := i.CleanUpInstance(t.Context(), k); err != nil || l.is.Device != "disk" || bootSet(r) != c.over {
				t.Errorf("after the instance: %v, the BMC shows %q, the document learns of %q, want %q", err, l.is.Device, bootSet(r), c.over)
			}
		})
	}
}

// A URL at a rackd that the BMC has forgotten is told again. What a request has set since stays, and so does a device for one start.
func TestWhatFirmwareLoadsOfARackdIsHeld(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		set   string
		shows ask.BootDevice
		gone  bool
		sets  []string
	}{
		"all well":              {set: "uefihttp", shows: ask.BootDevice{Device: "uefihttp", Persistent: &yes}},
		"forgotten":             {set: "uefihttp", sets: []string{cd + " true"}},
		"another for good":      {set: "uefihttp", shows: ask.BootDevice{Device: "disk", Persistent: &yes}, sets: []string{cd + " true"}},
		"another for one start": {set: "uefihttp", shows: ask.BootDevice{Device: "pxe", Persistent: &no}},
		"a request's":           {set: "disk", shows: ask.BootDevice{Device: "disk", Persistent: &yes}},
		"its rackd has gone":    {set: "uefihttp", gone: true, shows: ask.BootDevice{Device: "uefihttp", Persistent: &yes}, sets: []string{cd + " true"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, k, l, s := loadingTask(t, ownFiles())
			at := "http://192.0.2.5:8080"
			if c.gone {
				at = "http://192.0.2.4:8080"
			}
			k.Node.State, k.Node.BootSet = provision.Active, c.set
			k.Node.InstanceFiles = map[string]string{"kernel": "sha256-k", "ramdisk": "sha256-r", node.FileMedium: "w1", node.FileMediumAt: at}
			l.is, s.alive = c.shows, false
			if err := HTTPBoot(fine).KeepInstance(t.Context(), k); err != nil || !slices.Equal(l.sets, c.sets) {
				t.Errorf("%v, the BMC was told %q, want %q", err, l.sets, c.sets)
			}
		})
	}
}

// inMode is a machine in a boot mode.
type inMode struct {
	*loading
	mode string
}

func (m inMode) BootMode(context.Context, *node.Document) (string, error) { return m.mode, nil }

// A node that asks for no boot mode keeps its machine's. Firmware in BIOS mode is told of no image by HTTP, which it would never load.
func TestFirmwareInBIOSModeIsToldOfNoImage(t *testing.T) {
	for mode, refused := range map[string]bool{"bios": true, "uefi": false} {
		_, k, l, _ := loadingTask(t, nil)
		managedBy(t, k, inMode{l, mode})
		k.Node.Properties = nil
		err := HTTPBoot(fine).PrepareRamdisk(t.Context(), k)
		if (err != nil) != refused || refused && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "its boot mode is bios")) || (len(l.sets) == 0) != refused {
			t.Errorf("%s: %v, sets %q", mode, err, l.sets)
		}
	}
}
