package redfish

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// sumOf is a checksum of sha256, of one digit.
func sumOf(digit string) string { return strings.Repeat(digit, 64) }

// imagesWith are the step's arguments: one image for each digit that its checksum is made of.
func imagesWith(digits ...string) map[string]any {
	list := []any{}
	for _, digit := range digits {
		list = append(list, map[string]any{"url": "https://u:secret@files/" + digit + ".bin?s=secret", "checksum": sumOf(digit)})
	}
	return map[string]any{argFirmwareImages: list}
}

// imageStep is the step of a driver.
func imageStep(t *testing.T, d *Driver) driver.Step {
	t.Helper()
	return stepNamed(t, Management{Driver: d, Images: true}.NamedSteps(nil), "update_firmware")
}

// What is wrong with an image is refused before the flow, in the words of Ironic's schema, and without the image's URL.
func TestImagesAreChecked(t *testing.T) {
	check := imageStep(t, nil).Check
	with := func(name string, v any) map[string]any {
		one := map[string]any{"url": "https://u:secret@files/a.bin", "checksum": sumOf("a"), "source": "http", "wait": 30.0}
		if one[name] = v; v == nil {
			delete(one, name)
		}
		return one
	}
	for _, c := range []struct {
		image any
		says  string
	}{
		{with("source", nil), ""}, {with("wait", nil), ""}, {with("source", "local"), ""}, {with("checksum", strings.Repeat("A", 128)), ""},
		{with("url", "file:///srv/a.bin"), ""}, {with("wait", 7200.0), ""},
		{"https://files/a.bin", "is not of type 'object'"},
		{with("url", nil), "'url' is a required property"},
		{with("checksum", nil), "'checksum' is a required property"},
		{with("url", ""), "'url' should be non-empty"},
		{with("checksum", 5.0), "'checksum' is not of type 'string'"},
		{with("component", "bios"), "Additional properties are not allowed ('component' was unexpected)"},
		{with("checksum", strings.Repeat("a", 40)), "'checksum' has 40 characters, and is no sha256"},
		{with("checksum", strings.Repeat("g", 64)), "is no sha256"},
		{with("source", "ftp"), "'ftp' is not one of ['http', 'local', 'swift']"},
		{with("source", "swift"), "no rack puts files into Swift"},
		{with("url", "swift://container/a.bin"), "no rack asks Swift"},
		{with("url", "ftp://u:secret@files/a.bin"), "ftp is not supported for 'url'"},
		{with("url", "secret.bin"), "'url' is no absolute URL"},
		{with("url", "http:secret"), "'url' names no host"},
		{with("wait", 0.0), "'wait' is 0"}, {with("wait", 1.5), "'wait' is 1.5"}, {with("wait", "30"), "'wait' is 30"}, {with("wait", 7201.0), "from 1 to 7200"},
	} {
		err := check(nil, map[string]any{argFirmwareImages: []any{with("", nil), c.image}})
		if (err == nil) != (c.says == "") {
			t.Errorf("%v: %v, want %q", c.image, err, c.says)
		}
		if err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "image 2") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%v: %v, want %q", c.image, err, c.says)
		}
	}
	for _, none := range []any{nil, []any{}, "x", map[string]any{}} {
		if err := check(nil, map[string]any{argFirmwareImages: none}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v: %v", none, err)
		}
	}
}

// flashing has a rack with parts write what an image is for: one digit of its checksum is one part.
func flashing(c *cards) {
	others := c.rack.flash
	c.rack.flash = func(file string) {
		others(file)
		for digit, ids := range map[string][]string{"1": {"NIC.1"}, "2": {"NIC.2"}, "3": {"NIC.1", "NIC.2"}, "4": {"PS0"}} {
			if file == "http://rack/images/sha256-"+sumOf(digit) {
				for _, id := range ids {
					c.versions[id] = "2.0"
				}
			}
		}
	}
}

// Each image is written in its turn, and told as written once a component shows another version.
func TestImagesAreWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set      func(*cards, *drivertest.Rig)
		args     map[string]any
		orders   []string
		restarts int
		flashed  string
		history  string
		says     string
	}{
		"at once":             {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, imagesWith("1"), []string{"1"}, 0, "nic:N1=2.0", "the BMC fetches files/1.bin", ""},
		"two, in their order": {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, imagesWith("4", "1"), []string{"4", "1"}, 0, "nic:N1=2.0 psu:0=2.0", "files/1.bin", ""},
		"one of two adapters": {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, imagesWith("3"), []string{"3"}, 0, "nic:N1=2.0 nic:N2=2.0", "", ""},
		"a BIOS":              {func(c *cards, _ *drivertest.Rig) { c.rack.flash, c.rack.stages = nil, false }, imagesWith("1"), []string{"1"}, 0, "bios=2.0", "", ""},
		"staged until the restart": {func(c *cards, _ *drivertest.Rig) { c.rack.unbegun = "Pending" }, imagesWith("1"), []string{"1"}, 1, "nic:N1=2.0",
			"the BMC writes it when the machine restarts", ""},
		"written at the restart, and the task does not tell": {func(*cards, *drivertest.Rig) {}, imagesWith("1"), []string{"1"}, 1, "nic:N1=2.0", "no other version of any component than before", ""},
		"two, each staged":   {func(c *cards, _ *drivertest.Rig) { c.rack.unbegun = "Pending" }, imagesWith("1", "4"), []string{"1", "4"}, 2, "nic:N1=2.0 psu:0=2.0", "", ""},
		"nothing is written": {func(c *cards, _ *drivertest.Rig) { c.rack.stages, c.rack.lies = false, true }, imagesWith("1"), []string{"1"}, 1, "", "firmware unchanged: machine", ""},
		"nothing is written, and there is no task": {func(c *cards, _ *drivertest.Rig) { c.rack.lies = true }, imagesWith("1", "4"), []string{"1"}, 1, "", "",
			"made no task of it, and the machine shows no other version of any component than before, also 15 minutes after the machine was restarted. So nothing tells that files/1.bin was written"},
		"a part that goes is no news": {func(c *cards, _ *drivertest.Rig) {
			c.rack.stages, c.rack.flash = false, func(string) { delete(c.versions, "NIC.2") }
		}, imagesWith("1"), []string{"1"}, 1, "", "firmware unchanged: machine", ""},
		"a part that comes is no news": {func(c *cards, _ *drivertest.Rig) {
			delete(c.versions, "NIC.2")
			c.rack.stages, c.rack.flash = false, func(string) { c.versions["NIC.2"] = "1.0" }
		}, imagesWith("1"), []string{"1"}, 1, "", "firmware unchanged: machine", ""},
		"the task fails, and the rest": {func(c *cards, _ *drivertest.Rig) { c.rack.unbegun, c.rack.result = "Pending", "Exception" }, imagesWith("1", "2"), []string{"1"}, 1, "", "", "worn out"},
		"the rack does not get a file": {func(_ *cards, r *drivertest.Rig) {
			n := 0
			r.Fail = func(call string) error {
				if call == "prepare_image" {
					if n++; n == 2 {
						return errors.New("another checksum")
					}
				}
				return nil
			}
		}, imagesWith("1", "2"), nil, 0, "", "", "fetch firmware image 2, files/2.bin: another checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newRack()
			of := withCards(k)
			flashing(of)
			r, d := stagedRig(t, k)
			c.set(of, r)
			err := runStep(t, r, imageStep(t, d), c.args)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			var want []string
			for _, digit := range c.orders {
				want = append(want, "update http://rack/images/sha256-"+sumOf(digit))
			}
			if got := len(r.Writes("power power on")) + len(r.Writes("power rebooting")); got != c.restarts || !slices.Equal(k.writes, want) {
				t.Errorf("restarts %d, want %d; orders %q, want %q", got, c.restarts, k.writes, want)
			}
			got := strings.Fields(flashedOf(r))
			slices.Sort(got)
			if strings.Join(got, " ") != c.flashed {
				t.Errorf("flashed %q, want %q", got, c.flashed)
			}
			told := strings.Join(r.Phases, "\n")
			if !strings.Contains(told, c.history) || strings.Contains(told, "secret") || err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the node's history says %q, want %q", told, c.history)
			}
			if len(r.Busy) > 0 {
				t.Errorf("the BMC is said to be busy with %q", r.Busy)
			}
		})
	}
}

// After an image with a wait the BMC is left alone for that long, though its firmware shows already.
func TestWaitAfterAnImage(t *testing.T) {
	runs := func(wait any) int {
		k := newRack()
		flashing(withCards(k))
		r, d := stagedRig(t, k)
		k.stages = false
		args := imagesWith("1", "2")
		maps.Copy(args[argFirmwareImages].([]any)[0].(map[string]any), map[string]any{"wait": wait})
		step, n := imageStep(t, d), 0
		run := step.Run
		for len(k.writes) < 2 && n < 100 {
			task := r.Task(nobody{})
			task.Args = args
			if _, err := run(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	if short, long := runs(1.0), runs(300.0); long-short != 29 {
		t.Errorf("the second order comes at look %d with a wait of 1 s, and at look %d with 300 s; want 29 more", short, long)
	}
}

// An order whose answer is lost is looked for, and not given again.
func TestImagesAreNotWrittenTwice(t *testing.T) {
	for name, c := range map[string]struct {
		bmc     doubtful
		says    string
		flashed string
	}{
		"its answer is lost, and it lists the task": {doubtful{before: 504, took: true, lists: true}, "", "nic:N1=2.0"},
		"its answer is lost, and it lists no tasks": {doubtful{before: 504, took: true}, "its components show the versions of before and it lists no tasks", ""},
		"its answer is lost with the order":         {doubtful{before: 504, lists: true}, "lists no new task", ""},
		"busy, and taken all the same":              {doubtful{before: 503, took: true, lists: true}, "", "nic:N1=2.0"},
		"refused":                                   {doubtful{before: 400, lists: true}, "HTTP 400", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := &c.bmc
			k.rack = newRack()
			flashing(withCards(k.rack))
			e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
			e.set(func() { e.hook = k.serve })
			r.Node.DriverInfo = e.node(nil).DriverInfo
			err := tried(t, r, imageStep(t, d), imagesWith("1"))
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the step ends with %v, want %q", err, c.says)
			}
			if got := flashedOf(r); k.orders != 1 || got != c.flashed {
				t.Errorf("the BMC was asked %d times, want once; flashed %q, want %q", k.orders, got, c.flashed)
			}
		})
	}
}

// A component that shows another version has news. One of which fewer controllers tell than before has none: one of them is gone.
func TestNewsOfComponents(t *testing.T) {
	was, err := json.Marshal(shownVersions{"bios": {Version: "1.0"}, "card": {Version: "1.0" + joint + "2.0", Told: 2}, "gone": {Version: "1.0"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		now  shownVersions
		news []string
	}{
		"the same":         {shownVersions{"bios": {Version: "1.0"}, "card": {Version: "1.0" + joint + "2.0", Told: 2}}, nil},
		"a BIOS":           {shownVersions{"bios": {Version: "1.1"}}, []string{"bios"}},
		"one of two":       {shownVersions{"card": {Version: "2.0" + joint + "3.0", Told: 2}}, nil},
		"both of two":      {shownVersions{"card": {Version: "3.0", Told: 2}}, []string{"card"}},
		"one of two, gone": {shownVersions{"card": {Version: "3.0", Told: 1}}, nil},
		"one that comes":   {shownVersions{"new": {Version: "1.0"}}, nil},
	} {
		if got := (firmwareShown{all: c.now}).news(string(was)); !slices.Equal(got, c.news) {
			t.Errorf("%s: news %q, want %q", name, got, c.news)
		}
	}
}
