package redfish

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
)

// lazyDrives is a BMC with virtual drives: Cd is the one that takes ramdisks.
type lazyDrives struct {
	*tree
	lazy    int    // reads of the drive after which what was inserted shows
	as      string // under which name it shows; empty: its URL
	deaf    bool   // it accepts to eject and ejects nothing
	pending string
	reads   int
}

const cdAt = "/redfish/v1/Systems/1/VirtualMedia/Cd"

func (l *lazyDrives) answer(w http.ResponseWriter, r *http.Request) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	l.tree.mu.Lock()
	if path == cdAt && r.Method == http.MethodGet && l.pending != "" {
		if l.reads++; l.reads > l.lazy {
			l.at[cdAt]["Inserted"], l.at[cdAt]["Image"], l.pending = true, l.pending, ""
		}
	}
	l.tree.mu.Unlock()
	switch {
	case strings.HasSuffix(path, "/Eject2"):
		l.tree.mu.Lock()
		l.at[cdAt+"2"]["Inserted"], l.at[cdAt+"2"]["Image"] = false, ""
		l.writes = append(l.writes, "POST "+path)
		l.tree.mu.Unlock()
		w.WriteHeader(204)
		return true
	case strings.HasSuffix(path, "/Eject") && l.deaf:
		l.tree.mu.Lock()
		l.writes = append(l.writes, "POST "+path)
		l.tree.mu.Unlock()
		w.WriteHeader(204)
		return true
	}
	done := l.serve(w, r)
	if strings.HasSuffix(path, "/Insert") {
		l.tree.mu.Lock()
		l.pending, l.reads = l.at[cdAt]["Image"].(string), 0
		if l.as != "" {
			l.pending = l.as
		}
		if l.lazy > 0 || l.as != "" {
			l.at[cdAt]["Inserted"], l.at[cdAt]["Image"] = false, ""
		}
		l.tree.mu.Unlock()
	}
	return done
}

// mediaTask is a task of the real boot interface over the real driver.
func mediaTask(t *testing.T, l *lazyDrives) *driver.Task {
	t.Helper()
	e, d := newEmulator(t), newDriver(t, Options{})
	e.set(func() { e.hook = l.answer })
	n := e.node(map[string]any{"deploy_iso": "http://192.0.2.1/ipa.iso"})
	kind := fake.New(fake.Options{}).Type()
	kind.Interfaces["boot"] = []driver.Named{{Name: "redfish-virtual-media", Impl: mediaboot.Interface{}}}
	kind.Interfaces["management"] = []driver.Named{{Name: "redfish", Impl: d}}
	reg, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	n.Driver = kind.Name
	k := drivertest.NewRig().Task(mediaboot.Interface{})
	if k.Hardware, err = reg.Resolve(&node.Document{UUID: n.UUID, Driver: n.Driver, DriverInfo: n.DriverInfo}); err != nil {
		t.Fatal(err)
	}
	k.Node = n
	return k
}

// A BMC mounts the image in the background, a moment after its 204, and shows it under the name of its cache.
func TestAMediumMountedLateUnderAnotherNameIsTakenOut(t *testing.T) {
	l := &lazyDrives{tree: newTree(), lazy: 1, as: "/dev/shm/cache/ipa.iso"}
	k := mediaTask(t, l)
	if err := (mediaboot.Interface{}).PrepareRamdisk(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if list, _ := k.Hardware.Management().(driver.VirtualMedia).Media(t.Context(), k.Node); !list[0].Inserted {
		t.Fatalf("not mounted by now: %+v", list)
	}
	err := (mediaboot.Interface{}).CleanUpRamdisk(t.Context(), k)
	if at := l.at[cdAt]; err == nil && at["Inserted"] == true {
		t.Errorf("clean_up_ramdisk says nil, and the drive still holds %q; writes %q", at["Image"], l.written())
	}
}

// A BMC that accepts to eject and ejects nothing is not told of as one whose medium is out.
func TestADriveThatDoesNotEjectIsNoSuccess(t *testing.T) {
	t.Parallel()
	l := &lazyDrives{tree: newTree(), deaf: true}
	k := mediaTask(t, l)
	if err := (mediaboot.Interface{}).PrepareRamdisk(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"prepare_instance":  func() error { return (mediaboot.Interface{}).PrepareInstance(t.Context(), k) },
		"clean_up_instance": func() error { return (mediaboot.Interface{}).CleanUpInstance(t.Context(), k) },
		"the API's detach": func() error {
			return k.Hardware.Management().(driver.VirtualMedia).DetachMedia(t.Context(), k.Fence, k.Node, nil)
		},
	} {
		if err := do(); err == nil && l.at[cdAt]["Inserted"] == true {
			t.Errorf("%s says nil, and the drive still holds %q", name, l.at[cdAt]["Image"])
		}
	}
	l.deaf = false
	if err := k.Hardware.Management().(driver.VirtualMedia).DetachMedia(t.Context(), k.Fence, k.Node, nil); err != nil {
		t.Fatal(err)
	}
	l.lazy = 1 << 30 // a BMC that accepts to insert and inserts nothing
	if err := k.Hardware.Management().(driver.VirtualMedia).AttachMedia(t.Context(), k.Fence, k.Node, "cdrom", "http://192.0.2.1/other.iso"); err == nil && l.at[cdAt]["Inserted"] != true {
		t.Errorf("the API's attach says nil, and the drive is empty")
	}
}

// A BMC that answers 200 to the boot device, boot mode, secure boot and light, and changes nothing, has not done it.
func TestSettingsThatAreAcceptedAndNotMade(t *testing.T) {
	bmc := newTree()
	bmc.at["/redfish/v1/Systems/1"]["Boot"] = map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "Legacy"}
	e, d := newEmulator(t), newDriver(t, Options{})
	e.set(func() {
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPatch {
				w.WriteHeader(200)
				return true
			}
			return bmc.serve(w, r)
		}
	})
	n, f := e.node(nil), &drivertest.Fence{}
	if err := d.SetBootDevice(t.Context(), f, n, "pxe", true); err == nil {
		is, _ := d.BootDevice(t.Context(), n)
		t.Errorf("set boot device pxe: nil, and the BMC shows %+v", is)
	}
	if err := d.SetBootMode(t.Context(), f, n, "uefi"); err == nil {
		is, _ := d.BootMode(t.Context(), n)
		t.Errorf("set boot mode uefi: nil, and the BMC shows %q", is)
	}
	if err := d.SetSecureBoot(t.Context(), f, n, true); err == nil {
		is, _ := d.SecureBoot(t.Context(), n)
		t.Errorf("set secure boot: nil, and the BMC shows %t", is)
	}
	if err := d.SetIndicator(t.Context(), f, n, "system", "led", "on"); err == nil {
		is, _ := d.Indicator(t.Context(), n, "system", "led")
		t.Errorf("set the light on: nil, and the BMC shows %q", is)
	}
}

// A machine with two managers, BMC and enclosure. The version of the enclosure is not taken for that of the BMC: else an update that
// the BMC ends and does not make would count as made.
func TestOfTwoManagersTheFirstIsTheBMC(t *testing.T) {
	k := newRack()
	r, d := rigOn(t, k)
	k.stages, k.lies = false, true
	two := func(w http.ResponseWriter, q *http.Request) bool {
		switch path := strings.TrimSuffix(q.URL.Path, "/"); {
		case q.Method != http.MethodGet:
		case path == systemAt:
			_, _ = w.Write([]byte(`{"@odata.id":"` + systemAt + `","Id":"1","PowerState":"Off","BiosVersion":"1.0","Links":{"ManagedBy":[{"@odata.id":"/redfish/v1/Managers/1"},{"@odata.id":"/redfish/v1/Managers/2"}]}}`))
			return true
		case path == "/redfish/v1/Managers/2":
			_, _ = w.Write([]byte(`{"@odata.id":"/redfish/v1/Managers/2","Id":"2","FirmwareVersion":"3.14","Model":"Enclosure"}`))
			return true
		}
		return k.serve(w, q)
	}
	e := newEmulator(t)
	e.set(func() { e.hook = two })
	r.Node.DriverInfo = e.node(nil).DriverInfo
	seen := map[string]int{}
	for range 40 {
		list, err := (Firmware{Driver: d}).Components(t.Context(), r.Node)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Name == "bmc" {
				seen[c.Current]++
			}
		}
	}
	if len(seen) > 1 {
		t.Errorf("the version of the BMC, read 40 times: %v", seen)
	}
	claimed, told := 0, ""
	for range 12 {
		r.NextStep()
		err := runStep(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), map[string]any{"settings": []any{map[string]any{"component": "bmc", "url": "http://files/bmc.bin"}}})
		for _, o := range r.Observed.Firmware {
			if err == nil && o.Flashed != "" {
				claimed, told = claimed+1, o.Name+" "+o.Flashed
				break
			}
		}
	}
	if claimed > 0 {
		t.Errorf("of 12 updates that the BMC ended and did not make, %d end well with the firmware told as flashed (%s)", claimed, told)
	}
}

// A BMC with two CD drives (iDRAC 9 has "1" and "2"), and the operator's tools in the second: the ramdisk goes into the first, however
// often it is attached.
func TestAnOperatorsMediumStaysInItsDrive(t *testing.T) {
	both, lost := 0, 0
	for range 30 {
		bmc := newTree()
		second := map[string]any{}
		for k, v := range bmc.at[cdAt] {
			second[k] = v
		}
		second["@odata.id"], second["Id"], second["Inserted"], second["Image"] = cdAt+"2", "Cd2", true, "http://192.0.2.9/operators-tools.iso"
		second["Actions"] = map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"target": cdAt + "2/TwoInsert"}, "#VirtualMedia.EjectMedia": map[string]any{"target": cdAt + "2/TwoEject"}}
		bmc.at[cdAt+"2"] = second
		bmc.at["/redfish/v1/Systems/1/VirtualMedia"] = map[string]any{"Members": []any{map[string]any{"@odata.id": cdAt}, map[string]any{"@odata.id": cdAt + "2"}}, "Members@odata.count": 2}
		e, d := newEmulator(t), newDriver(t, Options{})
		e.set(func() {
			e.hook = func(w http.ResponseWriter, r *http.Request) bool {
				bmc.mu.Lock()
				switch path := strings.TrimSuffix(r.URL.Path, "/"); {
				case strings.HasSuffix(path, "/TwoEject"):
					second["Inserted"], second["Image"] = false, ""
				case strings.HasSuffix(path, "/TwoInsert"):
					second["Inserted"], second["Image"] = true, "http://192.0.2.1/ipa.iso"
				default:
					bmc.mu.Unlock()
					return bmc.serve(w, r)
				}
				bmc.mu.Unlock()
				w.WriteHeader(204)
				return true
			}
		})
		n, f := e.node(nil), &drivertest.Fence{}
		for range 3 { // Settle, or a retry, or another owner
			if err := d.AttachMedia(t.Context(), f, n, "cdrom", "http://192.0.2.1/ipa.iso"); err != nil {
				t.Fatal(err)
			}
		}
		if bmc.at[cdAt]["Image"] == "http://192.0.2.1/ipa.iso" && second["Image"] == "http://192.0.2.1/ipa.iso" {
			both++
		}
		if second["Image"] != "http://192.0.2.9/operators-tools.iso" {
			lost++
		}
	}
	if both > 0 || lost > 0 {
		t.Errorf("of 30 machines whose first drive is empty: on %d the image is in both drives after three attempts, on %d the operator's image of the second drive is gone", both, lost)
	}
}

// target_raid_config is changed between two volumes of create_configuration, and the next owner of the work has the node's new
// document: the step does not go on with the other list.
func TestATargetThatIsChangedInTheMiddle(t *testing.T) {
	k := newRack()
	r, d := rigOn(t, k)
	a := disksOf(
		map[string]any{"raid_level": "0", "size_gb": 50.0, "volume_name": "root", "is_root_volume": true, "number_of_physical_disks": 1.0},
		map[string]any{"raid_level": "0", "size_gb": 60.0, "volume_name": "data", "number_of_physical_disks": 1.0})
	b := disksOf(
		map[string]any{"raid_level": "1", "size_gb": 90.0, "volume_name": "mirror", "is_root_volume": true},
		map[string]any{"raid_level": "1", "size_gb": 80.0, "volume_name": "scratch"})
	step := stepNamed(t, RAID{Driver: d}.NamedSteps(r.Node), "create_configuration")
	r.Node.TargetRAID = a
	changed := false
	for range 600 {
		task := r.Task(nobody{})
		task.Args = map[string]any{}
		out, err := step.Run(t.Context(), task)
		if _, waits := out.Waiting(); err != nil {
			if !changed || !strings.Contains(err.Error(), "was changed while the BMC made") {
				t.Errorf("the step fails: %v", err)
			}
			return
		} else if !waits {
			break
		}
		if !changed && strings.Contains(r.HandleText(), `"at":1`) {
			changed, r.Node.TargetRAID = true, b
		}
	}
	t.Errorf("the step ends well (changed in the middle: %t): orders %q, told %v", changed, k.writes, r.Observed.RAID)
}

// Emulators show what they have accepted at once, or never.
func init() { driveLook, bootLook = 20*time.Millisecond, 20*time.Millisecond }

// Who may read an image may stand in its URL, and an error becomes a line of history that more people read.
func TestErrorsOfDrivesShowNoURL(t *testing.T) {
	e, d, f, bmc := newEmulator(t), newDriver(t, Options{}), &drivertest.Fence{}, newTree()
	n := e.node(nil)
	bmc.at[cdAt]["Inserted"], bmc.at[cdAt]["Image"] = true, "https://svc:hunter2@images/ipa.iso?X-Amz-Signature=deadbeef"
	e.set(func() {
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/Eject") {
				refuse(w, 400, "the drive is in use")
				return true
			}
			return bmc.serve(w, r)
		}
	})
	for what, err := range map[string]error{"attach": d.AttachMedia(t.Context(), f, n, "cdrom", "http://me/x.iso"), "detach": d.DetachMedia(t.Context(), f, n, nil)} {
		if err == nil || !strings.Contains(err.Error(), "in use") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "deadbeef") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
