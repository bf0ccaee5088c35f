package bootguard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
)

// clearer is a machine whose BMC takes back a device for one start.
type clearer struct{ *bmc }

func (c clearer) ClearOneStart(_ context.Context, f driver.Fence, _ *node.Document) error {
	if err := f.Check(); err != nil {
		return err
	}
	*c.writes = append(*c.writes, "back")
	if len(c.fails) > 0 {
		err := c.fails[0]
		c.fails = c.fails[1:]
		return err
	}
	return nil
}

// A device for one start that the start has not used up is taken back. One of which that is not known is left alone: it may be for the
// next start, or firmware may be about to use it.
func TestADeviceThatOutlivesItsStart(t *testing.T) {
	const pxe, disk = "pxe", "disk"
	once, lasts := func(d string) ask.BootDevice { return ask.BootDevice{Device: d, Persistent: new(false)} }, ask.BootDevice{Device: pxe, Persistent: new(true)}
	// at is minutes from the test's begin. A look without a finding writes nothing.
	at := func(m int) time.Duration { return time.Duration(m) * time.Minute }
	type look struct {
		at     time.Duration
		shows  ask.BootDevice
		writes string
		told   string
	}
	for name, c := range map[string]struct {
		set      string
		asked    int
		device   string
		start    int // 0: none
		fails    []error
		cannot   bool
		lost     bool
		looks    []look
		wantsEnd bool // of a node without a device for all starts, after the last look
	}{
		"a request's": {asked: 1, device: pxe, start: 10, looks: []look{
			{at(13), once(pxe), "", ""}, {at(30), once(pxe), "back", "the BMC shows pxe for one start, and the machine has started since"}, {at(90), ask.BootDevice{}, "", ""}}},
		"used up":         {asked: 1, device: pxe, start: 10, looks: []look{{at(30), ask.BootDevice{}, "", ""}}},
		"for all starts":  {asked: 1, device: pxe, start: 10, looks: []look{{at(30), lasts, "", ""}}},
		"no start yet":    {asked: 1, device: pxe, looks: []look{{at(30), once(pxe), "", ""}, {at(300), once(pxe), "", ""}}, wantsEnd: true},
		"another by hand": {asked: 1, device: pxe, start: 10, looks: []look{{at(30), once("cdrom"), "", ""}, {at(90), once("cdrom"), "", ""}}, wantsEnd: true},
		"seen before":     {start: 10, looks: []look{{at(5), once(pxe), "", ""}, {at(30), once(pxe), "back", "it was taken back"}}},
		"seen afterwards": {start: 10, looks: []look{{at(20), once(pxe), "", ""}, {at(60), once(pxe), "", ""}}},
		"with one for all starts": {set: disk, asked: 1, device: pxe, start: 10, looks: []look{
			{at(30), once(pxe), "disk true", "disk, which was set for all starts, was set again"}}},
		"the answer is lost": {asked: 1, device: pxe, start: 10, fails: []error{driver.ErrUnknown}, looks: []look{{at(30), once(pxe), "back back", "taken back"}}},
		"the BMC refuses":    {asked: 1, device: pxe, start: 10, fails: []error{driver.ErrDenied}, looks: []look{{at(30), once(pxe), "back", "could not be taken back"}}, wantsEnd: true},
		"it knows no way":    {asked: 1, device: pxe, start: 10, cannot: true, looks: []look{{at(30), once(pxe), "", "Set a device for all starts in its place"}, {at(90), once(pxe), "", ""}}, wantsEnd: true},
		"work has begun":     {asked: 1, device: pxe, start: 10, lost: true, looks: []look{{at(30), once(pxe), "", ""}}, wantsEnd: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				r := &rack{device: c.device, lost: c.lost}
				if c.asked != 0 {
					r.asked = begin.Add(at(c.asked))
				}
				var writes []string
				b := &bmc{writes: &writes, fails: c.fails}
				var m driver.Management = clearer{b}
				if c.cannot {
					m = b
				}
				hw, task := hardwareWith(t, m), Task(time.Hour, r)
				n := &node.Document{UUID: "n", Driver: "t", State: provision.Available, BootSet: c.set}
				for _, l := range c.looks {
					time.Sleep(time.Until(begin.Add(l.at)))
					if c.start != 0 && l.at >= at(c.start) {
						r.start = begin.Add(at(c.start))
					}
					writes, r.lines, b.shows = nil, nil, &l.shows
					err := task.Do(t.Context(), n, hw)
					if refuses := slices.Contains(c.fails, driver.ErrDenied); (err != nil) != refuses {
						t.Errorf("after %s: %v", l.at, err)
					}
					if got := strings.Join(writes, " "); got != l.writes || fmt.Sprint(len(r.lines)) != map[bool]string{true: "1", false: "0"}[l.told != ""] || !strings.Contains(strings.Join(r.lines, ""), l.told) {
						t.Errorf("after %s: writes %q, told %q; want %q and %q", l.at, got, r.lines, l.writes, l.told)
					}
				}
				if got := task.Wants(n, hw); c.set == "" && got != c.wantsEnd {
					t.Errorf("afterwards it is looked at: %t", got)
				}
			})
		})
	}
}

// A node of which a request has set a device for one start is looked at until it is used up, also without one for all starts.
func TestADeviceForOneStartIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rack{asked: time.Now(), device: "pxe"}
		shows := ask.BootDevice{}
		hw, task := hardwareWith(t, &bmc{shows: &shows}), Task(time.Hour, r)
		n := &node.Document{UUID: "n", Driver: "t", State: provision.Manageable}
		wants := func(when string, want bool) {
			t.Helper()
			if got := task.Wants(n, hw); got != want {
				t.Errorf("%s: looked at %t", when, got)
			}
		}
		wants("at first", true)
		time.Sleep(time.Minute)
		if err := task.Do(t.Context(), n, hw); err != nil {
			t.Fatal(err)
		}
		wants("used up", false)
		time.Sleep(time.Minute)
		r.asked = time.Now()
		wants("set again", true)
		r.lasts = true
		wants("for all starts, of which the document does not show yet", false)
	})
}

// A device for one start, and a flow, may take the place of the one for all starts: a BMC may have room for one of the two. The history
// does not call that forgetting.
func TestWhatTookThePlaceIsNoForgetting(t *testing.T) {
	for name, c := range map[string]struct {
		state  provision.State
		asked  bool
		device string
		lasts  bool
		seen   bool // as it was set, before what was asked
		says   string
	}{
		"an instance's":                         {provision.Active, false, "", false, true, "the BMC has forgotten disk"},
		"an instance's, by a flow":              {provision.Active, true, "", false, false, "the BMC has forgotten disk"},
		"an instance's, one for one start":      {provision.Active, true, "pxe", false, true, "has taken its place"},
		"a request's":                           {provision.Available, true, "disk", true, false, "the BMC has forgotten disk"},
		"a request's, and a flow since":         {provision.Available, true, "", false, true, "has taken its place"},
		"a request's, one for one start since":  {provision.Available, true, "pxe", false, true, "has taken its place"},
		"a request's, of which nothing is kept": {provision.Available, false, "", false, false, "has taken its place"},
		"a request's that was seen":             {provision.Available, false, "", false, true, "the BMC has forgotten disk"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, shows, writes := &rack{}, ask.BootDevice{Device: "disk", Persistent: new(true)}, []string{}
				hw, task := hardwareWith(t, &bmc{shows: &shows, writes: &writes}), Task(time.Hour, r)
				n := &node.Document{UUID: "n", Driver: "t", State: c.state, BootSet: "disk"}
				look := func() {
					t.Helper()
					if err := task.Do(t.Context(), n, hw); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Hour)
				}
				if c.seen {
					look()
				}
				if c.asked {
					r.asked, r.device, r.lasts = time.Now(), c.device, c.lasts
					time.Sleep(time.Minute)
				}
				shows = ask.BootDevice{}
				look()
				if len(writes) != 1 || len(r.lines) != 1 || !strings.Contains(r.lines[0], c.says) || !strings.Contains(r.lines[0], "disk was set again") {
					t.Errorf("writes %q, told %q, want %q", writes, r.lines, c.says)
				}
				look() // the next time it is the BMC
				if len(r.lines) != 2 || !strings.Contains(r.lines[1], "the BMC has forgotten disk") {
					t.Errorf("at the next forgetting: %q", r.lines)
				}
			})
		})
	}
}
