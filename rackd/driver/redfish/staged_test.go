package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// stagedRig is a machine whose BMC carries orders out when the machine restarts.
func stagedRig(t *testing.T, k *rack) (*drivertest.Rig, *Driver) {
	r, d := rigOn(t, k)
	k.stages = true
	k.restarts = func() int { return len(r.Writes("power power on")) + len(r.Writes("power rebooting")) }
	return r, d
}

var rootAndData = disksOf(
	map[string]any{"raid_level": "1", "size_gb": 50.0, "volume_name": "root", "is_root_volume": true, "disk_type": "ssd"},
	map[string]any{"raid_level": "0", "size_gb": "MAX", "number_of_physical_disks": 2.0, "controller": "A", "disk_type": "hdd"})

// old is a volume that was there before.
func (k *rack) old() {
	k.volumes[volumesAt+"/old"] = map[string]any{"@odata.id": volumesAt + "/old", "Id": "old", "RAIDType": "RAID0", "CapacityBytes": int64(100) << 30,
		"Links": map[string]any{"Drives": []any{map[string]any{"@odata.id": storageAt + "/A/Drives/0"}}}}
}

// Volumes that the BMC only stages are there once the machine was restarted, and not before.
func TestStagedVolumes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, unbegun string
		applies       []any
		power         driver.PowerState
		never, early  bool // disable_power_off; it shows volumes too early
		want          []string
	}{
		{"pending tasks, a machine that is off", "Pending", nil, driver.PowerOff, false, false, []string{"power power on", "power power off", "power power on", "power power off", "power power on", "power power off"}},
		{"pending tasks, a machine that runs", "Pending", nil, driver.PowerOn, false, false, []string{"power power off", "power power on", "power power off", "power power on", "power power off", "power power on"}},
		{"tasks that do not leave their start", "Starting", nil, driver.PowerOn, true, false, []string{"power rebooting", "power rebooting", "power rebooting"}},
		{"new tasks", "New", []any{"OnReset"}, driver.PowerOn, true, false, []string{"power rebooting", "power rebooting", "power rebooting"}},
		{"no task at all", "", nil, driver.PowerOn, true, false, []string{"power rebooting", "power rebooting", "power rebooting"}},
		{"no task, and makes volumes at a restart only", "", []any{"OnReset"}, driver.PowerOn, true, false, []string{"power rebooting", "power rebooting", "power rebooting"}},
		{"no task, and shows volumes before the restart that makes them", "", []any{"OnReset"}, driver.PowerOn, true, true, []string{"power rebooting", "power rebooting", "power rebooting"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newRack()
			k.unbegun, k.applies, k.early = c.unbegun, c.applies, c.early
			k.old()
			r, d := stagedRig(t, k)
			r.SetPowerState(c.power)
			r.Node.DisablePowerOff, r.Node.TargetRAID = c.never, rootAndData
			if err := runStep(t, r, stepNamed(t, RAID{Driver: d}.NamedSteps(r.Node), "create_configuration"), map[string]any{"delete_existing": true}); err != nil {
				t.Fatal(err)
			}
			if want := []string{"delete", fmt.Sprint("make RAID1 root ", float64(50<<30), " on 2"), "make RAID0 <nil> <nil> on 2"}; !slices.Equal(k.writes, want) {
				t.Errorf("the BMC was told %q, want %q", k.writes, want)
			}
			if got := r.Writes("power"); !slices.Equal(got, c.want) {
				t.Errorf("the machine's power: %q, want %q", got, c.want)
			}
			disks, _ := r.Observed.RAID["logical_disks"].([]any)
			if len(disks) != 2 {
				t.Fatalf("observed %v", r.Observed.RAID)
			}
			root, data := disks[0].(map[string]any), disks[1].(map[string]any)
			if root["raid_level"] != "1" || root["size_gb"] != int64(50) || root["name"] != "root" || root["is_root_volume"] != true || data["size_gb"] != int64(200) || data["controller"] != "A" {
				t.Errorf("observed %v", disks)
			}
			if len(r.Busy) > 0 {
				t.Errorf("the BMC is said to be busy with %q", r.Busy)
			}
		})
	}
}

// What a BMC does not show is not told as made, whatever it says.
func TestVolumesThatAreNotThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		set      func(*rack)
		orders   int
		restarts int
		says     []string
	}{
		{"a task that ends and does nothing", func(k *rack) { k.stages, k.lies = false, true }, 1, 1, []string{"make logical disk 1", "its task has ended well", "no volume is new", "after the machine was restarted"}},
		{"the same of a controller that makes volumes at once", func(k *rack) { k.stages, k.lies, k.applies = false, true, []any{"OnReset", "Immediate"} }, 1, 0, []string{"no volume is new"}},
		{"a staged task that ends and does nothing", func(k *rack) { k.unbegun, k.lies = "Pending", true }, 1, 1, []string{"no volume is new", "after the machine was restarted"}},
		{"no task, and nothing ever", func(k *rack) { k.lies = true }, 1, 1, []string{"it made no task for it", "after the machine was restarted"}},
		{"a volume of another level", func(k *rack) { k.unbegun, k.level = "Pending", "RAID0" }, 1, 1, []string{"its level is RAID0, asked for was RAID1"}},
		{"a task that fails after the restart", func(k *rack) { k.unbegun, k.result = "Pending", "Exception" }, 1, 1, []string{"ended as Exception", "worn out"}},
		{"a task that never begins", func(k *rack) { k.unbegun, k.restarts = "Pending", func() int { return 0 } }, 1, 1, []string{"is Pending", "30 minutes after the machine was restarted", "delete the task"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newRack()
			r, d := stagedRig(t, k)
			c.set(k)
			r.Node.TargetRAID = rootAndData
			err := runStep(t, r, stepNamed(t, RAID{Driver: d}.NamedSteps(r.Node), "create_configuration"), nil)
			if err == nil {
				t.Fatalf("it is told as made: %v", r.Observed.RAID)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v, want %q in it", err, part)
				}
			}
			if got := len(r.Writes("power power on")); len(k.writes) != c.orders || got != c.restarts || r.Observed.RAID != nil {
				t.Errorf("orders %q, restarts %d, observed %v", k.writes, got, r.Observed.RAID)
			}
		})
	}
}

// A task that a BMC follows with ever new words has a bound too.
func TestTaskWithoutEnd(t *testing.T) {
	for _, state := range []string{"Running", "Starting"} {
		o := ordered{Asked: true}
		k, far := newRack(), 0
		r, d := rigOn(t, k)
		e := newEmulator(t)
		e.set(func() {
			e.hook = func(w http.ResponseWriter, q *http.Request) bool {
				if q.URL.Path != "/task" {
					return k.serve(w, q)
				}
				far++
				fmt.Fprintf(w, `{"TaskState":%q,"Messages":[{"Message":"line %d"}]}`, state, far)
				return true
			}
		})
		r.Node.DriverInfo = e.node(nil).DriverInfo
		o.Followed = longest - begins - 2
		var is progress
		var err error
		for range begins + 1 {
			if is, err = d.job(t.Context(), r.Task(nobody{}), "test", "/task", &o); err != nil || is == staged {
				break
			}
		}
		switch {
		case state == "Running":
			if err != nil {
				t.Errorf("%s: %v before its time", state, err)
			}
			for range 2 {
				_, err = d.job(t.Context(), r.Task(nobody{}), "test", "/task", &o)
			}
			if err == nil || !strings.Contains(err.Error(), "has not ended within 24h") {
				t.Errorf("%s: %v", state, err)
			}
		case is != staged:
			t.Errorf("%s: %v, %v after %d looks", state, is, err, far)
		}
	}
}

// A task's monitor answers 202 until the task has ended, and then what the order would have been answered, which may be nothing.
func TestTaskMonitor(t *testing.T) {
	for _, last := range []string{`{"@odata.id":"/redfish/v1/Systems/1/Storage/A/Volumes/1"}`, ""} {
		taskMonitor(t, last)
	}
}

// taskMonitor follows a monitor to its last answer.
func taskMonitor(t *testing.T, last string) {
	t.Helper()
	k, asked := newRack(), 0
	e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
	e.set(func() {
		e.hook = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path != "/monitor" {
				return k.serve(w, q)
			}
			if asked++; asked < 3 {
				w.WriteHeader(http.StatusAccepted)
			} else {
				fmt.Fprint(w, last)
			}
			return true
		}
	})
	r.Node.DriverInfo = e.node(nil).DriverInfo
	var seen []progress
	for range 3 {
		is, err := d.job(t.Context(), r.Task(nobody{}), "test", "/monitor", &ordered{})
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, is)
	}
	if !slices.Equal(seen, []progress{running, running, done}) {
		t.Errorf("with %q at last: seen %v", last, seen)
	}
}

// In the ramdisk the machine runs the ramdisk again before the next order, and before the step ends.
func TestStagedVolumesInTheRamdisk(t *testing.T) {
	k := newRack()
	k.unbegun = "Pending"
	r, d := stagedRig(t, k)
	r.SetPowerState(driver.PowerOn)
	r.Node.TargetRAID = rootAndData
	step := stepNamed(t, RAID{Driver: d}.NamedSteps(r.Node), "create_configuration")
	r.NoBoot = true
	run := func() (driver.Outcome, error) {
		task := r.Task(networkboot.IPXE())
		task.Facts[driver.FactBoot] = driver.BootRamdisk
		return step.Run(t.Context(), task)
	}
	for range 60 {
		if out, err := run(); err != nil || out == driver.Done() {
			t.Fatalf("%v, %v: the ramdisk's agent has not called", out, err)
		}
	}
	if got := r.Writes("power"); len(k.writes) != 1 || !slices.Equal(got, []string{"power power off", "power power on"}) {
		t.Fatalf("orders %q, power %q", k.writes, got)
	}
	r.NoBoot = false
	r.NextBoot()
	for range 60 {
		out, err := run()
		if err != nil {
			t.Fatal(err)
		}
		if out == driver.Done() {
			break
		}
	}
	if got := r.Writes("power"); len(k.writes) != 2 || !slices.Equal(got, []string{"power power off", "power power on", "power power off", "power power on"}) || len(r.Writes("boot pxe")) != 2 {
		t.Errorf("orders %q, writes %q", k.writes, r.Log)
	}
	if disks, _ := r.Observed.RAID["logical_disks"].([]any); len(disks) != 2 {
		t.Errorf("observed %v", r.Observed.RAID)
	}
}

// A BMC that answers a restart with a time-out has it read back.
func TestRestartOfStagedVolumesInDoubt(t *testing.T) {
	for _, never := range []bool{false, true} {
		k := newRack()
		k.unbegun = "Pending"
		r, d := stagedRig(t, k)
		r.SetPowerState(driver.PowerOn)
		r.Node.TargetRAID, r.Node.DisablePowerOff = rootAndData, never
		r.Fail = func(call string) error {
			if call == "set_power" {
				return driver.ErrUnknown // it has arrived all the same
			}
			return nil
		}
		if err := tried(t, r, stepNamed(t, RAID{Driver: d}.NamedSteps(r.Node), "create_configuration"), nil); err != nil {
			t.Error(err)
		}
		if got := k.restarts(); got != 2 || len(k.writes) != 2 {
			t.Errorf("restarts %d, orders %q", got, k.writes)
		}
	}
}

// In maintenance the machine is not restarted: the order waits.
func TestNoRestartInMaintenance(t *testing.T) {
	k := newRack()
	k.unbegun = "Pending"
	r, d := stagedRig(t, k)
	step := stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update")
	for range 30 {
		task := r.Task(nobody{})
		task.Args, task.Attended = biosOnly, func() bool { return true }
		if out, err := step.Run(t.Context(), task); err != nil || out == driver.Done() || k.restarts() != 0 {
			t.Fatalf("%v, %v, restarts %d", out, err, k.restarts())
		}
	}
	if len(r.Busy) != 0 {
		t.Errorf("it holds the power: busy with %q", r.Busy)
	}
	if err := runStep(t, r, step, biosOnly); err != nil || k.restarts() != 1 || len(k.writes) != 1 {
		t.Errorf("%v, restarts %d, orders %q", err, k.restarts(), k.writes)
	}
}

// Firmware is told as active once the BMC shows it.
func TestStagedFirmware(t *testing.T) {
	t.Parallel()
	bmcOnly := map[string]any{"settings": []any{map[string]any{"component": "bmc", "url": "http://files/bmc.bin"}}}
	for _, c := range []struct {
		name     string
		set      func(*rack)
		args     map[string]any
		restarts int
		flashed  string
		history  string
		says     string
	}{
		{"a task that waits for the restart", func(k *rack) { k.unbegun = "Pending" }, biosOnly, 1, "2.0", "when the machine restarts", ""},
		{"a task that does not leave its start", func(k *rack) { k.unbegun = "Starting" }, biosOnly, 1, "2.0", "when the machine restarts", ""},
		{"no task, and written at the restart", func(k *rack) {}, biosOnly, 1, "2.0", "as before", ""},
		{"a task that ends and writes nothing", func(k *rack) { k.stages, k.lies = false, true }, biosOnly, 1, "", "still shows version 1.0", ""},
		{"the same of a BMC", func(k *rack) { k.stages, k.lies = false, true }, bmcOnly, 0, "", "still shows version 9", ""},
		{"no task, and nothing ever", func(k *rack) { k.lies = true }, biosOnly, 1, "", "", "made no task of it, and the bios shows version 1.0, as before, also 15 minutes after the machine was restarted"},
		{"the same of a BMC", func(k *rack) { k.lies = true }, bmcOnly, 0, "", "", "made no task of it, and the bmc shows version 9, as before"},
		{"a staged task that fails", func(k *rack) { k.unbegun, k.result = "Pending", "Exception" }, biosOnly, 1, "", "", "worn out"},
		{"a staged task that never begins", func(k *rack) { k.unbegun, k.restarts = "Pending", func() int { return 0 } }, biosOnly, 1, "", "", "does not begin it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newRack()
			r, d := stagedRig(t, k)
			c.set(k)
			err := runStep(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), c.args)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if got := len(r.Writes("power power on")); got != c.restarts || len(k.writes) != 1 {
				t.Errorf("restarts %d, orders %q", got, k.writes)
			}
			if got := len(r.Writes("power power off")); got != c.restarts && c.says == "" {
				t.Errorf("a machine that was off is not off again: %q", r.Writes("power"))
			}
			flashed := ""
			for _, o := range r.Observed.Firmware {
				flashed += o.Flashed
			}
			if flashed != c.flashed {
				t.Errorf("observed %+v", r.Observed.Firmware)
			}
			if told := strings.Join(r.Phases, "\n"); !strings.Contains(told, c.history) {
				t.Errorf("the node's history says %q, want %q", told, c.history)
			}
		})
	}
}

// wait says how long a new version is looked for before the machine is restarted.
func TestWaitOfAnUpdate(t *testing.T) {
	r, _ := rigOn(t, newRack())
	for seconds, want := range map[float64]int{1: 1, 10: 1, 11: 2, 300: 30, 7200: 720} {
		list, err := updates(r.Node, []any{map[string]any{"component": "bios", "url": "http://x/y", "wait": seconds}})
		if err != nil || list[0].wait != want || (&updating{}).patience(list[0]) != want {
			t.Errorf("%v s: %+v, %v; want %d looks of %s", seconds, list, err, want, jobPoll.Round(time.Second))
		}
	}
	if _, err := updates(r.Node, []any{map[string]any{"component": "bios", "url": "http://x/y", "wait": 7201.0}}); !errors.Is(err, driver.ErrInvalid) {
		t.Error(err)
	}
}
