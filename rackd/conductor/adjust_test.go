package conductor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

// fakeHardware makes the shelf's node one of fake hardware.
func fakeHardware(t *testing.T, s *shelf) func(*Config) {
	t.Helper()
	s.put(&node.Document{UUID: nodeA, Driver: "fake-hardware", State: provision.Active})
	return func(c *Config) {
		reg, err := driver.NewRegistry(fake.New(fake.Options{}).Type())
		if err != nil {
			t.Fatal(err)
		}
		c.Hardware = reg
	}
}

// observed are the events of a kind that were published.
func (s *shelf) observed() (out []work.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == work.HardwareObserved {
			out = append(out, e)
		}
	}
	return out
}

// A change is made, reported as it is then, and leaves the provision state alone; one
// that fails says why.
func TestAdjust(t *testing.T) {
	on := true
	image := sealedFor(t, seal.MediaImage, "work-1", "http://user:hush@i/a.iso")
	for name, c := range map[string]struct {
		change work.Change
		info   map[string]any
		fails  string
		is     func(work.Event) bool
	}{
		"boot mode":   {change: work.Change{BootMode: "bios"}, is: func(e work.Event) bool { return *e.Hardware.BootMode == "bios" }},
		"secure boot": {change: work.Change{SecureBoot: &on}, is: func(e work.Event) bool { return *e.Hardware.SecureBoot }},
		"console":     {change: work.Change{Console: &on}, is: func(e work.Event) bool { return *e.Hardware.ConsoleEnabled }},
		"failure":     {change: work.Change{BootMode: "bios"}, info: map[string]any{"fake_set_boot_mode_fail": "stuck"}, fails: "stuck"},
		"attach": {change: work.Change{Media: &work.Media{Types: []string{"cdrom"}, Image: image}},
			is: func(e work.Event) bool { return strings.Contains(string(e.Hardware.Kept), "hush@i/a.iso") }},
		"detach": {change: work.Change{Media: &work.Media{}}, is: func(e work.Event) bool { return true }},
		"attach what lies within": {change: work.Change{Media: &work.Media{Types: []string{"cdrom"}, Image: sealedFor(t, seal.MediaImage, "work-1", "http://user:hush@127.0.0.1/a.iso")}},
			fails: "the BMC is not told to read the image: its address 127.0.0.1 leads to 127.0.0.1, a loopback address"},
		"attach fails": {change: work.Change{Media: &work.Media{Types: []string{"floppy"}, Image: image}}, info: map[string]any{"fake_attach_virtual_media_fail": "jammed"},
			fails: "could not attach virtual drive floppy"},
		"detach fails": {change: work.Change{Media: &work.Media{Types: []string{"disk"}}}, info: map[string]any{"fake_detach_virtual_media_fail": "jammed"},
			fails: "could not detach virtual drive disk"},
		"nothing": {fails: "does not know the change"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				hw := fakeHardware(t, s)
				s.nodes[nodeA].DriverInfo = c.info
				_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, hw)
				defer kill()
				s.request(nodeA, work.Adjust, provision.Active, work.Args{Change: &c.change})
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.State != provision.Active || d.Result.OK != (c.fails == "") || !strings.Contains(d.Result.Error, c.fails) ||
					strings.Count(d.Result.Error, "node ") > 1 {
					t.Fatalf("work ended as %+v in state %q", d.Result, d.State)
				}
				seen := s.observed()
				if c.is != nil && (len(seen) != 1 || !c.is(seen[0]) || seen[0].Work != d.ID || seen[0].Hardware.Kept == nil) {
					t.Errorf("observed %+v", seen)
				}
			})
		})
	}
}

// sealedFor seals text for a work of nodeA.
func sealedFor(t *testing.T, kind seal.Kind, id, text string) string {
	t.Helper()
	return testKey.Seal(seal.Label{Kind: kind, Of: nodeA, Work: id}, text)
}

// The end of an inspection says who told what was found.
func TestEndOfAnInspectionNamesItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, fakeHardware(t, s))
		defer kill()
		s.request(nodeA, work.Inspect, provision.Inspecting, work.Args{})
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if e := s.events[len(s.events)-1]; e.Kind != work.WorkEnded || e.Error != "" || e.Source != work.MadeUp {
			t.Errorf("the last event is %+v, want the end of an inspection of what is made up", e)
		}
	})
}

// What work has told of a machine is not told again when the machine is idle, and what it
// has become since is, also when it was so before the work.
func TestIdleMachineAfterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, fakeHardware(t, s))
		defer kill()
		n := s.Node(nodeA)
		hw, err := c.cfg.Hardware.Resolve(n)
		if err != nil {
			t.Fatal(err)
		}
		look := func(told int, mode string) {
			t.Helper()
			if err := c.SawHardware(t.Context(), n, hw); err != nil {
				t.Fatal(err)
			}
			if seen := s.observed(); len(seen) != told || *seen[told-1].Hardware.BootMode != mode {
				t.Errorf("told %d times, not %d, the last time %+v", len(seen), told, seen[len(seen)-1].Hardware)
			}
		}
		adjust := func() {
			s.request(nodeA, work.Adjust, provision.Active, work.Args{Change: &work.Change{BootMode: "bios"}})
			synctest.Wait()
		}
		behindUs := func() {
			if err := hw.Management().SetBootMode(t.Context(), &drivertest.Fence{}, n, "uefi"); err != nil {
				t.Fatal(err)
			}
		}
		look(1, "uefi")
		look(1, "uefi")
		adjust()
		look(2, "bios")
		behindUs()
		look(3, "uefi")
		adjust()
		behindUs()
		look(5, "uefi")
	})
}

// firmware is management that sets what the machine's firmware does some time after it said so, or never.
type firmware struct {
	*machine
	secure bool
	mode   string
	after  time.Duration // 0: never
	silent bool          // about the boot mode
}

func (f *firmware) SecureBoot(context.Context, *node.Document) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.secure, nil
}

func (f *firmware) SetSecureBoot(_ context.Context, fence driver.Fence, _ *node.Document, on bool) error {
	f.later(func() { f.secure = on })
	return fence.Check()
}

func (f *firmware) BootMode(context.Context, *node.Document) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		return "", driver.ErrUnsupported
	}
	return f.mode, nil
}

func (f *firmware) SetBootMode(_ context.Context, fence driver.Fence, _ *node.Document, mode string) error {
	f.later(func() { f.mode = mode })
	return fence.Check()
}

func (f *firmware) later(do func()) {
	if f.after > 0 {
		time.AfterFunc(f.after, func() { f.mu.Lock(); defer f.mu.Unlock(); do() })
	}
}

// A change of boot mode or secure boot ends well when the machine shows it, and not because its BMC has said yes.
func TestAChangeIsReadBack(t *testing.T) {
	on := true
	secure, mode := work.Change{SecureBoot: &on}, work.Change{BootMode: "uefi"}
	for name, c := range map[string]struct {
		change work.Change
		after  time.Duration
		silent bool
		fails  string
	}{
		"secure boot, never":         {secure, 0, false, "accepted secure boot true and reports false"},
		"boot mode, never":           {mode, 0, false, "accepted boot mode uefi and reports bios"},
		"secure boot, a moment":      {secure, 3 * time.Second, false, ""},
		"boot mode, a moment":        {mode, 3 * time.Second, false, ""},
		"boot mode, of a silent BMC": {mode, 0, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOff}
				f := &firmware{machine: m, mode: "bios", after: c.after, silent: c.silent}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
					named := []driver.Named{{Name: "m", Impl: m}}
					reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
						"power": named, "management": {{Name: "m", Impl: f}}, "boot": named, "deploy": named}})
					if err != nil {
						t.Fatal(err)
					}
					cfg.Hardware = reg
				})
				defer kill()
				s.request(nodeA, work.Adjust, provision.Available, work.Args{Change: &c.change})
				time.Sleep(time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.State != provision.Available || d.Result.OK != (c.fails == "") || !strings.Contains(d.Result.Error, c.fails) {
					t.Fatalf("in %q: %+v", d.State, d.Result)
				}
				seen := s.observed()
				if len(seen) != 1 {
					t.Fatalf("seen %d times", len(seen))
				}
				o := seen[0].Hardware
				if c.change.SecureBoot != nil && *o.SecureBoot != f.secure || c.change.BootMode != "" && !c.silent && *o.BootMode != f.mode {
					t.Errorf("seen %+v of a machine with %q, %t", o, f.mode, f.secure)
				}
			})
		})
	}
}
