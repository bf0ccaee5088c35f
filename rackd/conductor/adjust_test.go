package conductor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/view"
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

// What fake hardware was told at one rackd holds at another, through the node's document.
func TestKeptComesBackThroughTheDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		owner := owned("a")
		a, _, killA := conductorOn(t, s, "a", owner, &machine{}, fakeHardware(t, s))
		defer killA()
		b, _, killB := conductorOn(t, s, "b", owner, &machine{}, fakeHardware(t, s))
		defer killB()
		put := func(c *Conductor, m ask.Method, args any) ask.Reply {
			raw, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			return c.Answer(context.Background(), ask.Request{Method: m, Node: nodeA, Args: raw})
		}
		if r := put(a, ask.SetIndicator, ask.Indicator{Component: "system", Name: "led", State: "blinking"}); r.Error != nil {
			t.Fatal(r.Error)
		}
		seen := s.observed()
		if len(seen) != 1 || seen[0].Work != "" {
			t.Fatalf("reported %+v", seen)
		}
		next := *s.Node(nodeA)
		next.Kept = seen[0].Hardware.Kept // as central's relay does
		s.put(&next)
		if r := put(b, ask.GetIndicator, ask.Indicator{Component: "system", Name: "led"}); r.Error != nil || !strings.Contains(string(r.Body), `"state":"blinking"`) {
			t.Errorf("at the other rackd: %s, %v", r.Body, r.Error)
		}
	})
}

func TestVendorCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.alive.Store("z") // who has the other work, which is not taken from him
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, fakeHardware(t, s))
		defer kill()
		call := func(method, verb string, data map[string]any) ask.Reply {
			raw, err := json.Marshal(ask.VendorCall{Method: method, HTTPMethod: verb, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			return c.Answer(context.Background(), ask.Request{Method: ask.CallVendor, Node: nodeA, Args: raw})
		}
		bar := map[string]any{"bar": "meow"}
		if r := call("third_method_sync", "POST", bar); r.Error != nil || !strings.Contains(string(r.Body), `"return":true`) {
			t.Errorf("sync: %s, %v", r.Body, r.Error)
		}
		if r := call("second_method", "POST", bar); r.Error != nil || !strings.Contains(string(r.Body), `"work":true`) {
			t.Errorf("async: %s, %v", r.Body, r.Error)
		}
		for _, bad := range []ask.Reply{call("second_method", "POST", nil), call("second_method", "GET", bar), call("no_method", "POST", bar)} {
			if bad.Error == nil || bad.Error.Status != 400 {
				t.Errorf("answered %s, %v, want 400", bad.Body, bad.Error)
			}
		}
		s.mu.Lock()
		s.works[nodeA] = busy(s)
		s.mu.Unlock()
		if r := call("third_method_sync", "POST", bar); r.Error == nil || r.Error.Status != 409 {
			t.Errorf("beside work: %s, %v, want 409", r.Body, r.Error)
		}
		if r := call("fourth_method_shared_lock", "POST", bar); r.Error != nil || slices.Contains([]string{"", "null"}, string(r.Body)) {
			t.Errorf("a method that may go beside work: %s, %v", r.Body, r.Error)
		}
	})
}

// A method of which nobody knows whether it was done is answered with 504.
func TestVendorCallInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		cause  error
		status int
	}{"the write's outcome is unknown": {driver.ErrUnknown, 504}, "the BMC cannot be reached": {driver.ErrUnreachable, 503}, "it is refused": {driver.ErrDenied, 500}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				method := driver.VendorMethod{Method: driver.Method{Name: "poke", HTTPMethods: []string{"POST"}},
					Call: func(context.Context, driver.Fence, *node.Document, map[string]any) (any, error) { return nil, c.cause }}
				hw, _ := withVendor(t, s, vendor{&machine{}, method}, "work-1", provision.Active)
				a, _, kill := conductorOn(t, s, "a", owned("a"), nil, hw)
				defer kill()
				r := a.Answer(t.Context(), ask.Request{Method: ask.CallVendor, Node: nodeA, Args: json.RawMessage(`{"method":"poke","http_method":"POST"}`)})
				if r.Error == nil || r.Error.Status != c.status || strings.Contains(r.Error.Message, "look at the machine") != (c.status == 504) {
					t.Errorf("answered %s, %+v", r.Body, r.Error)
				}
			})
		})
	}
}

// busy is open work of another rackd.
func busy(s *shelf) *view.Work {
	return &view.Work{Doc: work.Document{ID: "other", Node: nodeA, Verb: work.Deploy, Owner: "z", Epoch: 1}, Revision: s.rev}
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
			if err := hw.Management().SetBootMode(t.Context(), idleFence{c: c, n: n}, n, "uefi"); err != nil {
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
