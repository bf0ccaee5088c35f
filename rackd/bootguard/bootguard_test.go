package bootguard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

// bmc is a management interface that shows a device and takes another.
type bmc struct {
	driver.Management
	shows  *ask.BootDevice
	writes *[]string
	fails  []error // of the writes, in turn
}

func (b *bmc) BootDevice(context.Context, *node.Document) (ask.BootDevice, error) {
	return *b.shows, nil
}

func (b *bmc) SetBootDevice(_ context.Context, f driver.Fence, _ *node.Document, d driver.BootDevice, persistent bool) error {
	if err := f.Check(); err != nil {
		return err
	}
	*b.writes = append(*b.writes, fmt.Sprint(d, " ", persistent))
	if len(b.fails) > 0 {
		err := b.fails[0]
		b.fails = b.fails[1:]
		return err
	}
	return nil
}

// rack keeps what is told.
type rack struct {
	lines []string
	lost  bool
	// asked is when a request has set device, or a flow may have set one, and start when a request has started the machine since.
	asked  time.Time
	device string
	lasts  bool
	start  time.Time
	ours   time.Time
}

func (r *rack) BootAsked(string) (at time.Time, device string, lasts bool) {
	return r.asked, r.device, r.lasts
}
func (r *rack) StartAfter(string) time.Time { return r.start }
func (r *rack) OursSince(string) time.Time  { return r.ours }

func (r *rack) Check() error {
	if r.lost {
		return driver.ErrFenced
	}
	return nil
}
func (*rack) Work() string                        { return "" }
func (*rack) Epoch() uint64                       { return 0 }
func (r *rack) Fence(*node.Document) driver.Fence { return r }
func (r *rack) TellLog(_ context.Context, _ *node.Document, _ *hardware.Observation, lines []work.Line) error {
	for _, l := range lines {
		r.lines = append(r.lines, l.Phase+": "+l.Detail)
	}
	return nil
}

func hardwareWith(t *testing.T, m driver.Management) *driver.Hardware {
	t.Helper()
	hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: hw.Power()}}, "management": {{Name: "m", Impl: m}},
		"boot": {{Name: "b", Impl: hw.Boot()}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	if hw, err = reg.Resolve(&node.Document{Driver: "t"}); err != nil {
		t.Fatal(err)
	}
	return hw
}

func TestAForgottenDeviceIsSetAgain(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		shows  ask.BootDevice
		fails  []error
		lost   bool
		writes []string
		told   string
		fails2 bool
	}{
		"kept":                     {shows: ask.BootDevice{Device: "disk", Persistent: &yes}},
		"kept, not said how long":  {shows: ask.BootDevice{Device: "disk"}},
		"another for one start":    {shows: ask.BootDevice{Device: "pxe", Persistent: &no}},
		"forgotten":                {writes: []string{"disk true"}, told: "has forgotten disk and shows no boot device; disk was set again"},
		"another for all starts":   {shows: ask.BootDevice{Device: "pxe", Persistent: &yes}, writes: []string{"disk true"}, told: "shows the boot device pxe"},
		"the answer is lost":       {fails: []error{driver.ErrUnknown}, writes: []string{"disk true", "disk true"}, told: "was set again"},
		"it refuses":               {fails: []error{driver.ErrDenied}, writes: []string{"disk true"}, told: "could not be set again", fails2: true},
		"work has begun meanwhile": {lost: true},
	} {
		var writes []string
		r := &rack{lost: c.lost}
		b := &bmc{shows: &c.shows, writes: &writes, fails: c.fails}
		n := &node.Document{UUID: "n", Driver: "t", State: provision.Active, BootSet: "disk"}
		err := Task(time.Hour, r).Do(t.Context(), n, hardwareWith(t, b))
		if (err != nil) != c.fails2 || !slices.Equal(writes, c.writes) || (len(r.lines) == 1) != (c.told != "") || len(r.lines) == 1 && !strings.Contains(r.lines[0], c.told) {
			t.Errorf("%s: %v, writes %v, told %q", name, err, writes, r.lines)
		}
		if c.fails2 && !errors.Is(err, driver.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A BMC that forgets at each start is set each time. It gets a line an hour at most, and each forgetting is named or counted in one.
func TestEachForgettingIsNamedOrCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []string
		r := &rack{}
		task := Task(time.Hour, r)
		forgot, kept := ask.BootDevice{}, ask.BootDevice{Device: "disk", Persistent: new(true)}
		b := &bmc{writes: &writes}
		hw := hardwareWith(t, b)
		n := &node.Document{UUID: "n", State: provision.Active, BootSet: "disk"}
		for i, look := range []struct {
			shows  *ask.BootDevice
			writes int
			line   string
		}{
			{&forgot, 1, "disk was set again"},
			{&forgot, 1, ""},
			{&forgot, 1, ""},
			{&forgot, 1, "disk was set again; it had also forgotten 2 times since"},
			{&forgot, 1, ""},
			{&kept, 0, ""},
			{&kept, 0, "the BMC has disk now; it had also forgotten once since"},
			{&kept, 0, ""},
			{&kept, 0, ""},
			{&kept, 0, ""},
			{&kept, 0, ""},
			{&forgot, 1, "disk was set again"},
		} {
			r.lines, writes, b.shows = nil, nil, look.shows
			if err := task.Do(t.Context(), n, hw); err != nil {
				t.Fatal(err)
			}
			if len(writes) != look.writes || len(r.lines) == 1 != (look.line != "") || len(r.lines) > 1 || look.line != "" && !strings.Contains(r.lines[0], look.line) {
				t.Errorf("look %d: writes %q, lines %q, want %d and %q", i, writes, r.lines, look.writes, look.line)
			}
			time.Sleep(20 * time.Minute)
		}
		if strings.Contains(strings.Join(r.lines, ""), "also forgotten") {
			t.Errorf("the last line counts what an earlier one has counted: %q", r.lines[0])
		}
	})
}

// A BMC that refuses goes on to refuse. The history says so once a day.
func TestARefusalIsToldOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []string
		r := &rack{}
		task := Task(time.Hour, r)
		b := &bmc{shows: &ask.BootDevice{}, writes: &writes}
		hw := hardwareWith(t, b)
		n := &node.Document{UUID: "n", State: provision.Active, BootSet: "disk"}
		for range 47 {
			b.fails = []error{driver.ErrDenied}
			if err := task.Do(t.Context(), n, hw); !errors.Is(err, driver.ErrDenied) {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		if len(writes) != 47 || len(r.lines) != 2 {
			t.Errorf("%d writes, %d lines", len(writes), len(r.lines))
		}
	})
}

func TestWhoIsGuarded(t *testing.T) {
	hw := hardwareWith(t, &bmc{})
	fixed := hardwareWith(t, none.Management{})
	for _, c := range []struct {
		n    node.Document
		hw   *driver.Hardware
		want bool
	}{
		{node.Document{State: provision.Active, BootSet: "disk"}, hw, true},
		{node.Document{State: provision.Active}, hw, false},
		{node.Document{State: provision.Active, BootSet: "disk", Maintenance: true}, hw, false},
		{node.Document{State: provision.Available, BootSet: "disk"}, hw, true},
		{node.Document{State: provision.Manageable, BootSet: "cdrom"}, hw, true},
		{node.Document{State: provision.Available}, hw, false},
		{node.Document{State: provision.Available, BootSet: "disk", Maintenance: true}, hw, false},
		{node.Document{State: provision.Available, BootSet: "disk"}, fixed, false},
		{node.Document{State: provision.Rescue, BootSet: "disk"}, hw, false},
		{node.Document{State: provision.DeployFail, BootSet: "disk"}, hw, false},
		{node.Document{State: provision.ServiceFail, BootSet: "disk"}, hw, false},
		{node.Document{State: provision.Active, BootSet: "disk"}, fixed, false},
	} {
		if got := Task(time.Hour, &rack{}).Wants(&c.n, c.hw); got != c.want {
			t.Errorf("%+v: %t", c.n, got)
		}
	}
}
