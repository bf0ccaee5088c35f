package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// doubtful is a BMC whose answer to an order says nothing, or is lost.
type doubtful struct {
	*rack
	orders int
	// before is what it answers to an order, 0: as the rack does. took says that it carries the
	// order out all the same.
	before int
	took   bool
	// lists: it lists its tasks, and busy is for how many reads of its system it says 503.
	lists bool
	busy  int
	// restarts is for how many reads it says so after each order.
	restarts int
	// shows: it writes the file of an order that it took, and shows that by its next answer.
	shows bool
}

func (d *doubtful) serve(w http.ResponseWriter, r *http.Request) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	order := r.Method == http.MethodPost && strings.HasSuffix(path, "/Actions/Simple") || r.Method == http.MethodPost && path == volumesAt || r.Method == http.MethodDelete && strings.HasPrefix(path, volumesAt)
	link := func(p string) map[string]any { return map[string]any{"@odata.id": p} }
	switch {
	case order && d.before != 0:
		d.busy = d.restarts
		if d.orders++; d.took {
			d.rack.serve(discard{http.Header{}}, r)
		}
		w.WriteHeader(d.before)
		return true
	case order:
		d.orders++
	case r.Method == http.MethodGet && path == systemAt && d.busy > 0:
		d.busy--
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	case d.lists && r.Method == http.MethodGet && path == "/redfish/v1":
		_ = json.NewEncoder(w).Encode(map[string]any{"@odata.id": path, "Systems": link("/redfish/v1/Systems"), "UpdateService": link(updateAt),
			"Tasks": link("/redfish/v1/TaskService"), "Links": map[string]any{"Sessions": link("/redfish/v1/SessionService/Sessions")}})
		return true
	case d.lists && path == "/redfish/v1/TaskService":
		_ = json.NewEncoder(w).Encode(map[string]any{"@odata.id": path, "Tasks": link(path + "/Tasks")})
		return true
	case d.lists && path == "/redfish/v1/TaskService/Tasks":
		d.mu.Lock()
		defer d.mu.Unlock()
		links := []any{}
		for p := range d.jobs {
			links = append(links, link(p))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Members": links})
		return true
	}
	return d.rack.serve(w, r)
}

// discard is an answer that never arrives.
type discard struct{ h http.Header }

func (d discard) Header() http.Header       { return d.h }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// tried runs a step as the conductor does, and each run as a new owner of the work.
func tried(t *testing.T, r *drivertest.Rig, s driver.Step, args map[string]any) (err error) {
	t.Helper()
	left := s.Retries
	for range 600 {
		task := r.Task(nobody{})
		task.Args = args
		var out driver.Outcome
		out, err = s.Run(t.Context(), task)
		_, waits := out.Waiting()
		switch {
		case err == nil && !waits:
			return nil
		case err == nil:
		case left == 0 || !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrUnknown):
			return err
		default:
			left--
		}
	}
	t.Fatalf("step %s never ends: %v", s.Name, err)
	return nil
}

// writesAtOnce has a BMC write what it is told to, BIOS or BMC, without any restart of the machine.
func writesAtOnce(k *rack) {
	starts, bmc := 0, "9"
	k.stages, k.restarts = true, func() int { starts++; return starts }
	k.flash = func(file string) {
		if strings.HasSuffix(file, "/bmc.bin") {
			bmc = "10"
		} else {
			k.version = "2.0"
		}
	}
	const manager = "/redfish/v1/Managers/1"
	k.more = map[string]func() any{manager: func() any {
		return map[string]any{"@odata.id": manager, "Id": "1", "FirmwareVersion": bmc, "Model": "B"}
	}}
}

var biosAndBMC = map[string]any{"settings": []any{map[string]any{"component": "bios", "url": "http://files/bios.bin"}, map[string]any{"component": "bmc", "url": "http://files/bmc.bin"}}}
var biosOnly = map[string]any{"settings": []any{map[string]any{"component": "bios", "url": "http://files/bios.bin"}}}

func TestFirmwareIsNotWrittenTwice(t *testing.T) {
	for _, c := range []struct {
		name    string
		bmc     doubtful
		args    map[string]any
		orders  int
		says    string // in the error; empty: the step succeeds
		flashed string // of the BIOS
	}{
		{"a BMC without tasks that restarts afterwards", doubtful{before: 204, took: true, restarts: 2, shows: true}, biosAndBMC, 2, "", "2.0"},
		{"the same, and it shows nothing", doubtful{before: 204, took: true, restarts: 2}, biosAndBMC, 1, "made no task of it, and the bios shows version 1.0, as before", ""},
		{"its answer is lost, and it lists the task", doubtful{before: 504, took: true, lists: true}, biosOnly, 1, "", "2.0"},
		{"its answer is lost, and it lists no tasks", doubtful{before: 504, took: true}, biosOnly, 1, "lists no tasks", ""},
		{"its answer is lost with the order", doubtful{before: 504, lists: true}, biosOnly, 1, "lists no new task", ""},
		{"an error of its own", doubtful{before: 500, took: true, lists: true}, biosOnly, 1, "", "2.0"},
		{"busy for good, and nothing taken", doubtful{before: 503, lists: true}, biosOnly, 5, "is busy", ""},
		{"busy, and taken all the same", doubtful{before: 503, took: true, lists: true}, biosOnly, 1, "", "2.0"},
		{"refused", doubtful{before: 400, lists: true}, biosOnly, 1, "HTTP 400", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &c.bmc
			k.rack = newRack()
			if k.shows {
				writesAtOnce(k.rack)
			}
			e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
			e.set(func() { e.hook = k.serve })
			r.Node.DriverInfo = e.node(nil).DriverInfo
			err := tried(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), c.args)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the step ends with %v, want %q", err, c.says)
			}
			if k.orders != c.orders {
				t.Errorf("the BMC was asked %d times, want %d", k.orders, c.orders)
			}
			if o := r.Observed.Firmware; c.says == "" && (len(o) == 0 || o[0].Flashed != c.flashed) {
				t.Errorf("observed %+v, want version %q as flashed", o, c.flashed)
			}
			if c.says == "" && len(r.Busy) > 0 {
				t.Errorf("the BMC is said to be busy with %q", r.Busy)
			}
			if errors.Is(err, driver.ErrUnknown) {
				t.Errorf("%v: would be tried again", err)
			}
		})
	}
}

// A BMC that does not answer for a while after its update is waited for.
func TestFirmwareOfABMCThatRestarts(t *testing.T) {
	k := &doubtful{rack: newRack()}
	e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
	e.set(func() { e.hook = k.serve })
	r.Node.DriverInfo = e.node(nil).DriverInfo
	k.asked = map[string]int{}
	step := stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update")
	task := r.Task(nobody{})
	task.Args = biosOnly
	if _, err := step.Run(t.Context(), task); err != nil || len(r.Busy) == 0 {
		t.Fatalf("%v, busy with %q", err, r.Busy)
	}
	k.busy = 20
	if err := tried(t, r, step, biosOnly); err != nil || k.orders != 1 {
		t.Errorf("%v, asked %d times, want once", err, k.orders)
	}
	if o := r.Observed.Firmware; len(o) == 0 || o[0].Flashed != "2.0" {
		t.Errorf("observed %+v", o)
	}
}

// A rackd that dies between its checkpoint and the order leaves one that was never given. Its
// successor cannot know that: it fails, and says so.
func TestFirmwareOrderThatMayHaveLeft(t *testing.T) {
	k := &doubtful{rack: newRack(), lists: true}
	e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
	e.set(func() { e.hook = k.serve })
	r.Node.DriverInfo = e.node(nil).DriverInfo
	step := stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update")
	r.LoseAfter(0)
	if err := tried(t, r, step, biosOnly); !errors.Is(err, driver.ErrFenced) || !strings.Contains(r.HandleText(), `"asked":true`) {
		t.Fatalf("%v, handle %s", err, r.HandleText())
	}
	r.LoseAfter(1 << 20)
	err := tried(t, r, step, biosOnly)
	if err == nil || !strings.Contains(err.Error(), "its rackd was lost") || !strings.Contains(err.Error(), "version 1.0") || k.orders != 0 {
		t.Errorf("%v after %d orders", err, k.orders)
	}
}

func TestVolumesAreMadeAndDeletedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		bmc    doubtful
		step   string
		orders int
		says   string
		left   int // volumes
	}{
		{"the answer is lost, and it lists the task", doubtful{before: 504, took: true, lists: true}, "create_configuration", 1, "", 2},
		{"the answer is lost with the order", doubtful{before: 504, lists: true}, "create_configuration", 1, "no volume is new and it lists no new task", 1},
		{"busy, and taken all the same", doubtful{before: 503, took: true, lists: true}, "create_configuration", 1, "", 2},
		{"a deletion whose answer is lost", doubtful{before: 504, took: true}, "delete_configuration", 1, "", 0},
		{"a deletion that changes nothing", doubtful{before: 204}, "delete_configuration", 1, "the BMC said that it has done so (it made no task for it), and volume", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &c.bmc
			k.rack = newRack()
			k.volumes[volumesAt+"/old"] = map[string]any{"@odata.id": volumesAt + "/old", "RAIDType": "RAID0",
				"Links": map[string]any{"Drives": []any{map[string]any{"@odata.id": fmt.Sprintf("%s/A/Drives/0", storageAt)}}}}
			e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
			e.set(func() { e.hook = k.serve })
			r.Node.DriverInfo = e.node(nil).DriverInfo
			r.Node.TargetRAID = disksOf(map[string]any{"raid_level": "0", "size_gb": 10.0})
			err := tried(t, r, stepNamed(t, RAID{Driver: d}.NamedSteps(r.Node), c.step), nil)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the step ends with %v, want %q", err, c.says)
			}
			if k.orders != c.orders || len(k.volumes) != c.left {
				t.Errorf("asked %d times, %d volumes are there; want %d and %d", k.orders, len(k.volumes), c.orders, c.left)
			}
		})
	}
}
