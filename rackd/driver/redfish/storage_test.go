package redfish

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// rack is a BMC with four drives of 100 GiB behind a controller that makes volumes, and
// with firmware that it updates, each by a task that ends once it was asked for twice.
type rack struct {
	mu      sync.Mutex
	version string
	next    int
	volumes map[string]map[string]any
	jobs    map[string]func() (state string)
	asked   map[string]int
	writes  []string
	result  string // of tasks
	// restarts counts the machine's. A BMC that stages answers unbegun, until the machine restarts: "" is no task at all.
	// lies: it says that it has ended and does nothing.
	restarts func() int
	stages   bool
	unbegun  string
	lies     bool
	waits    []func() // what it does when the machine restarts, where it made no task for it
	applies  []any    // when it makes volumes, as it says
	early    bool     // it shows a staged volume before it is there
	level    string   // it makes volumes of this level, whatever it is asked for
	// more are resources that it has besides; nil is one that it does not show now. flash is what it writes of a file, instead of its BIOS.
	more  map[string]func() any
	flash func(file string)
	// refuses is its answer to an order of firmware; says what a task says at its end. Empty: the usual.
	refuses, says string
}

func newRack() *rack {
	return &rack{version: "1.0", volumes: map[string]map[string]any{}, jobs: map[string]func() string{}, asked: map[string]int{}, result: "Completed", restarts: func() int { return 0 }}
}

const (
	systemAt  = "/redfish/v1/Systems/1"
	storageAt = systemAt + "/Storage"
	volumesAt = storageAt + "/A/Volumes"
	updateAt  = "/redfish/v1/UpdateService"
	chassisAt = "/redfish/v1/Chassis/1"
)

func (k *rack) serve(w http.ResponseWriter, r *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, do := range k.waits {
		do()
	}
	link := func(p string) map[string]any { return map[string]any{"@odata.id": p} }
	reply := func(v map[string]any) bool { _ = json.NewEncoder(w).Encode(v); return true }
	list := func(paths ...string) bool {
		links := []any{}
		for _, p := range paths {
			links = append(links, link(p))
		}
		return reply(map[string]any{"Members": links, "Members@odata.count": len(links)})
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method != http.MethodGet && !strings.Contains(path, "Sessions") {
		return k.write(w, r, path)
	}
	if shows, there := k.more[path]; there && r.Method == http.MethodGet {
		if body := shows(); body != nil {
			_ = json.NewEncoder(w).Encode(body)
		} else {
			refuse(w, http.StatusNotFound, "it is not there now")
		}
		return true
	}
	switch {
	case r.Method != http.MethodGet:
		return false
	case path == "/redfish/v1":
		return reply(map[string]any{"@odata.id": path, "Systems": link("/redfish/v1/Systems"), "UpdateService": link(updateAt), "Links": map[string]any{"Sessions": link("/redfish/v1/SessionService/Sessions")}})
	case path == systemAt:
		return reply(map[string]any{"@odata.id": path, "Id": "1", "PowerState": "Off", "BiosVersion": k.version, "Manufacturer": "Maker", "Model": "M1", "SerialNumber": "S1",
			"Storage": link(storageAt), "Links": map[string]any{"ManagedBy": []any{link("/redfish/v1/Managers/1")}, "Chassis": []any{link(chassisAt)}}})
	case path == "/redfish/v1/Managers/1":
		return reply(map[string]any{"@odata.id": path, "Id": "1", "FirmwareVersion": "9", "Model": "B"})
	case path == updateAt:
		return reply(map[string]any{"@odata.id": path, "Actions": map[string]any{"#UpdateService.SimpleUpdate": map[string]any{"target": updateAt + "/Actions/Simple"}}})
	case path == storageAt:
		return list(storageAt + "/A")
	case path == storageAt+"/A":
		drives := []any{}
		for i := range 4 {
			drives = append(drives, link(fmt.Sprintf("%s/A/Drives/%d", storageAt, i)))
		}
		return reply(map[string]any{"@odata.id": path, "Id": "A", "Name": "Adapter", "Drives": drives, "Volumes": link(volumesAt)})
	case strings.HasPrefix(path, storageAt+"/A/Drives/"):
		id := path[len(path)-1:]
		return reply(map[string]any{"@odata.id": path, "Id": id, "Name": "bay " + id, "MediaType": map[bool]string{true: "SSD", false: "HDD"}[id >= "2"], "Protocol": "SAS", "CapacityBytes": int64(100) << 30})
	case path == volumesAt:
		var paths []string
		for p := range k.volumes {
			paths = append(paths, p)
		}
		slices.Sort(paths)
		links := []any{}
		for _, p := range paths {
			links = append(links, link(p))
		}
		return reply(map[string]any{"Members": links, "@Redfish.OperationApplyTimeSupport": map[string]any{"SupportedValues": k.applies}})
	case k.volumes[path] != nil:
		return reply(k.volumes[path])
	case k.jobs[path] != nil:
		if k.asked[path]++; k.asked[path] < 2 {
			return reply(map[string]any{"@odata.id": path, "TaskState": "Running"})
		}
		return reply(map[string]any{"@odata.id": path, "TaskState": k.jobs[path](), "Messages": []any{map[string]any{"Message": cmp.Or(k.says, "the flash is worn out")}}})
	}
	return false
}

func (k *rack) write(w http.ResponseWriter, r *http.Request, path string) bool {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	k.next++
	job := fmt.Sprintf("/redfish/v1/TaskService/Tasks/%d", k.next)
	var does func()
	switch {
	case path == updateAt+"/Actions/Simple":
		k.writes = append(k.writes, fmt.Sprint("update ", body["ImageURI"]))
		if k.refuses != "" {
			refuse(w, http.StatusBadRequest, k.refuses)
			return true
		}
		does = func() { k.version = "2.0" }
		if k.flash != nil {
			does = func() { k.flash(fmt.Sprint(body["ImageURI"])) }
		}
	case path == volumesAt:
		k.writes = append(k.writes, fmt.Sprint("make ", body["RAIDType"], " ", body["Name"], " ", body["CapacityBytes"], " on ", len(body["Links"].(map[string]any)["Drives"].([]any))))
		v := fmt.Sprintf("%s/%d", volumesAt, k.next)
		body["@odata.id"], body["Id"] = v, fmt.Sprint(k.next)
		if body["CapacityBytes"] == nil {
			body["CapacityBytes"] = int64(200) << 30
		}
		if k.level != "" {
			body["RAIDType"] = k.level
		}
		does = func() { k.volumes[v] = body }
	case k.volumes[path] != nil:
		k.writes = append(k.writes, "delete")
		does = func() { delete(k.volumes, path) }
		if !k.stages {
			does()
			w.WriteHeader(204)
			return true
		}
	default:
		return false
	}
	before := k.restarts()
	if k.early && path == volumesAt {
		does()
	}
	if k.stages && k.unbegun == "" {
		k.waits = append(k.waits, func() {
			if does != nil && k.restarts() > before && !k.lies {
				does()
				does = nil
			}
		})
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	k.jobs[job] = func() string {
		switch {
		case k.stages && k.restarts() == before:
			return k.unbegun
		case k.result == "Completed" && !k.lies && does != nil:
			does()
			does = nil
		}
		return k.result
	}
	w.Header().Set("Location", "https://"+r.Host+job)
	w.WriteHeader(http.StatusAccepted)
	return true
}

// runStep runs a step to its end, each run as a new owner of the work. What writes firmware, settings or volumes says that the BMC is at
// work for as long as it waits. Else the flow's deadline ends it, and the machine is switched off while the BMC writes.
func runStep(t *testing.T, r *drivertest.Rig, s driver.Step, args map[string]any) error {
	t.Helper()
	for run := range 600 {
		task, told := r.Task(nobody{}), r.Told
		task.Args = args
		out, err := s.Run(t.Context(), task)
		if _, waits := out.Waiting(); err != nil || !waits {
			return err
		}
		if len(r.Busy) == 0 && r.Told == told {
			t.Errorf("run %d of step %s waits, and does not say whether the BMC is at work; handle %s", run, s.Name, r.HandleText())
		}
	}
	t.Fatalf("step %s never ends", s.Name)
	return nil
}

// nobody is the boot interface that is not used.
type nobody struct{ driver.Boot }

func stepNamed(t *testing.T, list []driver.Step, name string) driver.Step {
	t.Helper()
	i := slices.IndexFunc(list, func(s driver.Step) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no step %s", name)
	}
	return list[i]
}

func rigOn(t *testing.T, k *rack) (*drivertest.Rig, *Driver) {
	e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
	e.set(func() { e.hook = k.serve })
	r.Node.DriverInfo = e.node(nil).DriverInfo
	return r, d
}

func TestFirmwareUpdate(t *testing.T) {
	k := newRack()
	r, d := rigOn(t, k)
	f := Firmware{Driver: d}
	list, err := f.Components(t.Context(), r.Node)
	if err != nil || len(list) != 2 || list[0].Name != "bios" || list[0].Current != "1.0" || list[1].Name != "bmc" || list[1].Current != "9" {
		t.Fatalf("components %+v, %v", list, err)
	}
	args := map[string]any{"settings": []any{map[string]any{"component": "bios", "url": "http://u:secret@files/bios-2.bin?s=secret"}, map[string]any{"component": "bmc", "url": "http://files/bmc.bin"}}}
	step := stepNamed(t, f.NamedSteps(r.Node), "update")
	if err := runStep(t, r, step, args); err != nil {
		t.Fatal(err)
	}
	if want := []string{"update http://u:secret@files/bios-2.bin?s=secret", "update http://files/bmc.bin"}; !slices.Equal(k.writes, want) {
		t.Errorf("the BMC was told %q, want %q", k.writes, want)
	}
	if told := strings.Join(r.Phases, "\n"); strings.Contains(told, "secret") || !strings.Contains(told, "files/bios-2.bin") {
		t.Errorf("the node's history says %q", told)
	}
	if o := r.Observed.Firmware; len(o) != 2 || o[0].Current != "2.0" || o[0].Flashed != "2.0" {
		t.Errorf("observed %+v", o)
	}
	k.result = "Exception"
	r.NextStep()
	if err := runStep(t, r, step, args); err == nil || !strings.Contains(err.Error(), "worn out") {
		t.Errorf("a task that fails: %v", err)
	}
	for _, bad := range []any{nil, []any{}, []any{map[string]any{"component": "toaster", "url": "http://x/y"}}, []any{map[string]any{"component": "bios", "url": "y"}},
		[]any{map[string]any{"component": "bios", "url": "http://x/y", "checksum": "1"}}, []any{map[string]any{"component": "bios", "url": "http://x/y", "wait": 0.0}}} {
		r.NextStep()
		if err := runStep(t, r, step, map[string]any{"settings": bad}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("settings %v: %v, want ErrInvalid", bad, err)
		}
		if err := step.Check(r.Node, map[string]any{"settings": bad}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("settings %v before the flow: %v, want ErrInvalid", bad, err)
		}
	}
}

// A BMC repeats the URL of a firmware, in a refusal or in a task. Neither the error nor the history tells what lets in to the file.
func TestFirmwareURLIsNotRepeated(t *testing.T) {
	const url = "https://reader:hunter2@files.example/bios-2.bin?X-Signature=5ecret"
	for name, says := range map[string]string{
		"plain": url, "json": strings.ReplaceAll(url, "/", `\/`), "in words": "The value '" + url + "', for the property ImageURI, is not in the form of a URI.",
		"escaped": neturl.QueryEscape(url), "with an at sign": "https://reader:hunt@er2@files.example/b?5ecret",
	} {
		for _, by := range []string{"refusal", "task"} {
			t.Run(name+" "+by, func(t *testing.T) {
				k := newRack()
				r, d := rigOn(t, k)
				if by == "refusal" {
					k.refuses = says
				} else {
					k.result, k.says = "Exception", says
				}
				args := map[string]any{"settings": []any{map[string]any{"component": "bios", "url": url}}}
				err := runStep(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), args)
				if err == nil {
					t.Fatal("the update was made")
				}
				told := err.Error() + strings.Join(r.Phases, "\n") + r.HandleText()
				for _, secret := range []string{"hunter2", "hunt@", "er2@", "5ecret"} {
					if strings.Contains(told, secret) {
						t.Errorf("%q is told: %s", secret, told)
					}
				}
				if !strings.Contains(told, "files.example") {
					t.Errorf("it does not say which file: %s", told)
				}
			})
		}
	}
}

func disksOf(list ...map[string]any) map[string]any {
	out := []any{}
	for _, d := range list {
		out = append(out, d)
	}
	return map[string]any{"logical_disks": out}
}

func TestRAID(t *testing.T) {
	k := newRack()
	r, d := rigOn(t, k)
	raid := RAID{Driver: d}
	steps := raid.NamedSteps(r.Node)
	r.Node.TargetRAID = disksOf(
		map[string]any{"raid_level": "1", "size_gb": 50.0, "volume_name": "root", "is_root_volume": true, "disk_type": "ssd"},
		map[string]any{"raid_level": "0", "size_gb": "MAX", "number_of_physical_disks": 2.0, "controller": "A"})
	if err := runStep(t, r, stepNamed(t, steps, "create_configuration"), nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{fmt.Sprint("make RAID1 root ", float64(50<<30), " on 2"), "make RAID0 <nil> <nil> on 2"}; !slices.Equal(k.writes, want) {
		t.Errorf("the BMC was told %q, want %q", k.writes, want)
	}
	if o, _ := r.Observed.RAID["logical_disks"].([]any); len(o) != 2 {
		t.Errorf("observed %v", r.Observed.RAID)
	}
	r.NextStep()
	if err := runStep(t, r, stepNamed(t, steps, "create_configuration"), nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("no drive is free: %v", err)
	}
	r.NextStep()
	if err := runStep(t, r, stepNamed(t, steps, "delete_configuration"), nil); err != nil || len(k.volumes) != 0 {
		t.Errorf("%v, volumes that are left: %v", err, k.volumes)
	}
	if r.Observed.RAID == nil || len(r.Observed.RAID) != 0 {
		t.Errorf("observed %v", r.Observed.RAID)
	}
}

// A step that lacks the configuration that it is to make, or whose flags cannot be read, is refused before anything of its flow
// happens. It deletes no volume.
func TestRAIDWithoutAConfiguration(t *testing.T) {
	k := newRack()
	r, d := rigOn(t, k)
	steps := RAID{Driver: d}.NamedSteps(r.Node)
	good := disksOf(map[string]any{"raid_level": "0", "size_gb": 10.0})
	r.Node.TargetRAID = good
	if err := runStep(t, r, stepNamed(t, steps, "create_configuration"), nil); err != nil {
		t.Fatal(err)
	}
	k.writes = nil
	for _, c := range []struct {
		name, step string
		target     map[string]any
		args       map[string]any
		says       string
	}{
		{"no target", "create_configuration", nil, nil, "there is no target_raid_config"},
		{"a target that was taken back", "create_configuration", map[string]any{}, nil, "there is no target_raid_config"},
		{"a target that Redfish cannot say", "create_configuration", disksOf(map[string]any{"raid_level": "1", "size_gb": 5.0, "controller": "software"}), nil, "software RAID"},
		{"a text", "apply_configuration", good, map[string]any{"raid_config": "mirror"}, "there is no RAID configuration"},
		{"null", "apply_configuration", good, map[string]any{"raid_config": nil}, "there is no RAID configuration"},
		{"nothing in it", "apply_configuration", good, map[string]any{"raid_config": map[string]any{}}, "there is no RAID configuration"},
		{"no level", "apply_configuration", good, map[string]any{"raid_config": disksOf(map[string]any{"size_gb": 5.0})}, "'raid_level' is a required property"},
		{"a word for a flag", "create_configuration", good, map[string]any{"create_root_volume": "False"}, "create_root_volume is False: give true or false"},
	} {
		r.NextStep()
		r.Node.TargetRAID = c.target
		step := stepNamed(t, steps, c.step)
		for when, err := range map[string]error{"before its flow": step.Check(r.Node, c.args), "when it runs": runStep(t, r, step, c.args)} {
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v, want ErrInvalid that says %q", c.name, when, err, c.says)
			}
		}
	}
	if len(k.writes) > 0 || len(k.volumes) != 1 {
		t.Errorf("the BMC was told %q, and %d volumes are left, want the one that was there", k.writes, len(k.volumes))
	}
	if err := stepNamed(t, steps, "delete_configuration").Check(r.Node, nil); err != nil {
		t.Error(err)
	}
}

// A rackd that dies between asking for a volume and hearing of it makes none twice.
func TestRAIDTakenOver(t *testing.T) {
	k := newRack()
	r, d := rigOn(t, k)
	r.Node.TargetRAID = disksOf(map[string]any{"raid_level": "0", "size_gb": 10.0})
	step := stepNamed(t, RAID{Driver: d}.NamedSteps(r.Node), "create_configuration")
	saves := 0
	r.Fail = func(call string) error {
		if call == "save" {
			if saves++; saves == 2 { // the first is before the request, the second after it
				return driver.ErrFenced
			}
		}
		return nil
	}
	if err := runStep(t, r, step, nil); !errors.Is(err, driver.ErrFenced) {
		t.Fatal(err)
	}
	k.mu.Lock()
	for _, end := range k.jobs {
		end()
	}
	k.mu.Unlock()
	r.Fail = nil
	if err := runStep(t, r, step, nil); err != nil {
		t.Fatal(err)
	}
	if len(k.volumes) != 1 {
		t.Errorf("%d volumes", len(k.volumes))
	}
}

func TestRAIDRefusals(t *testing.T) {
	r, d := rigOn(t, newRack())
	for _, c := range []map[string]any{
		disksOf(map[string]any{"raid_level": "1", "size_gb": 50.0, "controller": "software"}),
		disksOf(map[string]any{"raid_level": "1", "size_gb": 50.0, "physical_disks": []any{map[string]any{"size": ">1"}}}),
		{"logical_disks": []any{}},
	} {
		if err := (RAID{Driver: d}).CheckRAID(r.Node, c); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v: %v", c, err)
		}
	}
	e := newEmulator(t)
	r.Node.DriverInfo = e.node(nil).DriverInfo
	if _, err := (Firmware{Driver: d}).Components(t.Context(), r.Node); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("firmware of a BMC that tells none: %v", err)
	}
	r.Node.TargetRAID = disksOf(map[string]any{"raid_level": "0", "size_gb": 10.0})
	if err := runStep(t, r, stepNamed(t, RAID{Driver: d}.NamedSteps(r.Node), "create_configuration"), nil); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("volumes of a machine without controllers: %v", err)
	}
}
