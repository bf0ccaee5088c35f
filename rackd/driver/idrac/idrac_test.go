package idrac

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// The driver keeps the contract, with Redfish's fields and with those of WS-Man.
func TestConformance(t *testing.T) {
	for name, dialect := range map[string]redfish.Dialect{"redfish": {}, "drac": Drac} {
		t.Run(name, func(t *testing.T) {
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
				d, m := newDouble(t), management(t, redfish.Options{Dialect: dialect}, nil)
				info := d.info
				if name == "drac" {
					info = d.dracInfo
				}
				return d.Machine(m, m, info)
			})
		})
	}
}

func TestFieldsOfWSMan(t *testing.T) {
	d := redfish.New(redfish.Options{Dialect: Drac})
	good := map[string]any{fieldAddress: "192.0.2.1", fieldUser: "root", fieldPassword: "calvin"}
	with := func(field string, value any) *node.Document {
		info := map[string]any{}
		for k, v := range good {
			info[k] = v
		}
		info[field] = value
		return &node.Document{UUID: "u", DriverInfo: info}
	}
	for _, c := range []struct {
		field string
		value any
		says  string
	}{
		{fieldPath, "/wsman", ""}, {fieldPort, "8443", ""}, {fieldPort, 8443.0, ""}, {fieldAddress, "2001:db8::1", ""},
		{fieldAddress, "", "'drac_address' not supplied to DracDriver."},
		{fieldPassword, "", "'drac_password' not supplied to DracDriver."},
		{fieldProtocol, "ftp", "'drac_protocol' must be either 'http' or 'https'."},
		{fieldPort, "many", "drac_port \"many\" is not a valid port."},
		{fieldVerifyCA, "no-such.pem", fieldVerifyCA},
	} {
		err := d.Validate(with(c.field, c.value))
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s is %v: %v, want %q", c.field, c.value, err, c.says)
		}
	}
}

// stepOf runs a step of the management interface to its end.
func stepOf(t *testing.T, d *double, m Management, name string, args map[string]any) (*drivertest.Rig, error) {
	t.Helper()
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	return r, run(t, d, r, named(t, m.NamedSteps(r.Node), name), args)
}

func named(t *testing.T, steps []driver.Step, name string) driver.Step {
	t.Helper()
	for _, s := range steps {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no step %s", name)
	return driver.Step{}
}

// most is how often a step may wait in a test.
const most = 400

func run(t *testing.T, d *double, r *drivertest.Rig, s driver.Step, args map[string]any) error {
	t.Helper()
	if s.Check != nil {
		if err := s.Check(r.Node, args); err != nil {
			return err
		}
	}
	for range most {
		task := r.Task(networkboot.IPXE())
		task.Args = args
		out, err := s.Run(t.Context(), task)
		if _, waits := out.Waiting(); err != nil || !waits {
			return err
		}
		if len(r.Writes("power")) > 0 {
			d.Do(d.restarted)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("the step still waits after %d looks", most)
	return nil
}

func TestJobQueueIsCleared(t *testing.T) {
	d, m := newDouble(t), management(t, redfish.Options{}, nil)
	if _, err := stepOf(t, d, m, "clear_job_queue", nil); err != nil || len(d.Written()) != 0 {
		t.Errorf("an empty queue: %v, writes %v", err, d.Written())
	}
	d.addJob("JID_1", "Configure: BIOS.Setup.1-1", "Scheduled")
	r, err := stepOf(t, d, m, "clear_job_queue", nil)
	if err != nil || len(d.Written()) != 1 {
		t.Errorf("a full queue: %v, writes %v", err, d.Written())
	}
	if len(r.Phases) == 0 || r.Phases[0] != "job queue: empty" {
		t.Errorf("the history says %v", r.Phases)
	}
}

// Jobs that are left in the queue of an idle node are named, and nothing is written. Those that have ended are not. A node with another
// management interface is passed over.
func TestJobsOfAnIdleNodeAreNamed(t *testing.T) {
	d, m := newDouble(t), management(t, redfish.Options{}, nil)
	n := &node.Document{UUID: "u", Driver: "idrac", DriverInfo: d.info(redfishtest.Password)}
	rig := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	with := func(m driver.Management) *driver.Hardware {
		reg, err := driver.NewRegistry(driver.Type{Name: "idrac", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: rig.Power()}},
			"management": {{Name: "m", Impl: m}}, "boot": {{Name: "b", Impl: rig.Boot()}}, "deploy": {{Name: "d", Impl: rig.Deploy()}}}})
		if err != nil {
			t.Fatal(err)
		}
		hw, err := reg.Resolve(n)
		if err != nil {
			t.Fatal(err)
		}
		return hw
	}
	says := func(hw *driver.Hardware, want ...string) {
		t.Helper()
		text, err := Jobs().Do(t.Context(), n, hw)
		if err != nil || (text == "") != (len(want) == 0) || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(text, w) }) {
			t.Errorf("%v, it says %q, want %q", err, text, want)
		}
	}
	says(with(m))
	d.addJob("JID_3", "Configure: RAID.Integrated.1-1", "Completed")
	says(with(m))
	d.addJob("JID_4", "Configure: BIOS.Setup.1-1", "Scheduled")
	says(with(m), "JID_4 (Configure: BIOS.Setup.1-1, Scheduled)", "clear_job_queue")
	says(with(m.Management))
	if len(d.Written()) != 0 {
		t.Errorf("written %v", d.Written())
	}
	n.DriverInfo = d.info("another password")
	if text, err := Jobs().Do(t.Context(), n, with(m)); err == nil || text != "" {
		t.Errorf("with a refused login it says %q, %v", text, err)
	}
}

// A queue that stays full is an error that names the jobs.
func TestJobQueueThatStaysFull(t *testing.T) {
	d, m := newDouble(t), management(t, redfish.Options{}, nil)
	d.addJob("JID_7", "Firmware Update", "Running")
	d.Deaf = true
	if _, err := stepOf(t, d, m, "clear_job_queue", nil); err == nil || !strings.Contains(err.Error(), "JID_7 (Firmware Update, Running)") || len(d.Written()) != 1 {
		t.Errorf("%v, writes %v", err, d.Written())
	}
}

func TestServicesThatAreMissing(t *testing.T) {
	d, m := newDouble(t), management(t, redfish.Options{}, nil)
	d.At[idrac]["Links"] = map[string]any{}
	for step, service := range map[string]string{"clear_job_queue": "DellJobService", "reset_idrac": "DelliDRACCardService"} {
		if _, err := stepOf(t, d, m, step, nil); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "Oem/Dell/"+service+" is missing") {
			t.Errorf("%s: %v", step, err)
		}
	}
	if w := d.Written(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}

func TestResetWaitsForTheLifecycleController(t *testing.T) {
	for name, resets := range map[string]int{"reset_idrac": 1, "known_good_state": 1} {
		t.Run(name, func(t *testing.T) {
			d, m := newDouble(t), management(t, redfish.Options{}, nil)
			d.NotReady = 3
			d.addJob("JID_1", "Configure", "Scheduled")
			if _, err := stepOf(t, d, m, name, nil); err != nil {
				t.Fatal(err)
			}
			d.Do(func() {
				left := len(d.At[queueAt]["Members"].([]any))
				if d.resets != resets || d.NotReady != 0 || left != map[string]int{"reset_idrac": 1, "known_good_state": 0}[name] {
					t.Errorf("%d resets, not ready for %d looks more, %d jobs left", d.resets, d.NotReady, left)
				}
			})
		})
	}
}

// A step whose rackd dies after the reset does not reset again.
func TestResetIsGivenOnce(t *testing.T) {
	d, m := newDouble(t), management(t, redfish.Options{}, nil)
	d.NotReady = 5
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	s := named(t, m.NamedSteps(r.Node), "reset_idrac")
	if _, err := s.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil {
		t.Fatal(err)
	}
	if err := run(t, d, r, s, nil); err != nil {
		t.Fatal(err)
	}
	if d.resets != 1 {
		t.Errorf("it was reset %d times", d.resets)
	}
}

// shelf is a Store.
type shelf map[string][]byte

func (s shelf) Load(_ context.Context, at string) ([]byte, error) {
	if s[at] == nil {
		return nil, errors.New("GET " + shown(at) + ": the server answered 404 Not Found")
	}
	return s[at], nil
}
func (s shelf) Save(_ context.Context, at string, data []byte) error { s[at] = data; return nil }

func TestConfigurationIsExportedAndImported(t *testing.T) {
	const at, other = "http://molds.example/r640.json", "http://molds.example/after.json"
	d, store := newDouble(t), shelf{}
	m := management(t, redfish.Options{}, store)
	d.Looks = 2
	if _, err := stepOf(t, d, m, "export_configuration", map[string]any{argExport: at}); err != nil {
		t.Fatal(err)
	}
	var kept mold
	if err := json.Unmarshal(store[at], &kept); err != nil || kept.Oem.Interface != "idrac-redfish" {
		t.Fatalf("kept: %s", store[at])
	}
	if text := string(kept.Oem.Data); strings.Contains(text, "IPv4Static") || !strings.Contains(text, "Users.2#UserName") || !strings.Contains(text, "BootMode") {
		t.Errorf("kept of the iDRAC: %s", text)
	}
	d.Staged = true
	r, err := stepOf(t, d, m, "import_export_configuration", map[string]any{argImport: at, argExport: other})
	if err != nil {
		// The export after the import is staged too in this double.
		t.Fatal(err)
	}
	if len(d.imports) != 1 || d.imports[0] != string(kept.Oem.Data) {
		t.Errorf("%d imports", len(d.imports))
	}
	if len(r.Writes("power")) == 0 || store[other] == nil {
		t.Errorf("power: %v; kept after the import: %t", r.Writes("power"), store[other] != nil)
	}
}

func TestImportsThatFail(t *testing.T) {
	const at = "http://user:pa55@molds.example/r640.json?token=t0ken"
	good := []byte(`{"oem":{"interface":"idrac-redfish","data":{"SystemConfiguration":{}}}}`)
	for name, c := range map[string]struct {
		kept []byte
		at   string
		set  func(*double)
		says string
	}{
		"no configuration there": {at: at, says: "404"},
		"of another interface":   {kept: []byte(`{"oem":{"interface":"ilo","data":{}}}`), at: at, says: "ilo"},
		"no configuration":       {kept: []byte(`<html>`), at: at, says: "no configuration"},
		"no URL":                 {at: "molds", says: "not an http or https URL"},
		"no location":            {at: "", says: "import_configuration_location missing"},
		"imported in part": {kept: good, at: at, set: func(d *double) {
			d.Says = []any{map[string]any{"Message": "Unable to apply some", "MessageId": "IDRAC.2.4.SYS055"}}
		}, says: "Unable to apply some"},
		"jobs in the way":          {kept: good, at: at, set: func(d *double) { d.addJob("JID_9", "Firmware Update", "Running") }, says: "JID_9"},
		"its task is an exception": {kept: good, at: at, set: func(d *double) { d.Ends = "Exception" }, says: "Exception"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t)
			store := shelf{}
			if c.kept != nil {
				store[at] = c.kept
			}
			if c.set != nil {
				c.set(d)
			}
			_, err := stepOf(t, d, management(t, redfish.Options{}, store), "import_configuration", map[string]any{argImport: c.at})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "pa55") || strings.Contains(err.Error(), "t0ken") {
				t.Errorf("%v, want %q and no secret", err, c.says)
			}
		})
	}
}

// An import whose answer was lost is found by its task, and not given again.
func TestImportWithALostAnswer(t *testing.T) {
	const at = "http://molds.example/r640.json"
	d := newDouble(t)
	m := management(t, redfish.Options{}, shelf{at: []byte(`{"oem":{"interface":"idrac-redfish","data":{"SystemConfiguration":{}}}}`)})
	d.Machine(m, m, d.info).Lose()
	if _, err := stepOf(t, d, m, "import_configuration", map[string]any{argImport: at}); err != nil {
		t.Fatal(err)
	}
	if len(d.imports) != 1 {
		t.Errorf("%d imports", len(d.imports))
	}
}

// The BMC counts as at work from the order of an import on: a flow that fails then leaves the machine's power alone.
func TestAnImportKeepsTheBMCBusy(t *testing.T) {
	const at = "http://molds.example/r640.json"
	d := newDouble(t)
	m := management(t, redfish.Options{}, shelf{at: []byte(`{"oem":{"interface":"idrac-redfish","data":{"SystemConfiguration":{}}}}`)})
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	task := r.Task(networkboot.IPXE())
	task.Args = map[string]any{argImport: at}
	step := named(t, m.NamedSteps(r.Node), "import_configuration")
	for len(d.imports) == 0 {
		if _, err := step.Run(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Contains(r.Busy, "import the configuration") {
		t.Errorf("the BMC is said to be busy with %q", r.Busy)
	}
}

func TestVirtualDriveIsABootDeviceOfItsOwn(t *testing.T) {
	importLook = time.Millisecond
	d, m := newDouble(t), management(t, redfish.Options{}, nil)
	n := &node.Document{UUID: "u", DriverInfo: d.info(redfishtest.Password)}
	var _ driver.MediaBooter = m
	for _, c := range []struct {
		device     driver.BootDevice
		persistent bool
		want       string
	}{{"cdrom", false, "Enabled VCD-DVD"}, {"cdrom", true, "Disabled VCD-DVD"}, {"floppy", false, "Enabled VFDD"}} {
		for range 2 { // what is so already is not written
			before := len(d.Written())
			if err := m.SetMediaBoot(t.Context(), &drivertest.Fence{}, n, c.device, c.persistent); err != nil {
				t.Fatal(err)
			}
			a := d.At[idrac+"/Attributes"]["Attributes"].(map[string]any)
			if got := a[once].(string) + " " + a[first].(string); got != c.want || len(d.Written())-before > 1 {
				t.Errorf("%s, persistent %t: %s after %v", c.device, c.persistent, got, d.Written()[before:])
			}
		}
	}
	if len(d.imports) != 3 || strings.ContainsAny(d.imports[0], "\n\t") {
		t.Errorf("imports: %q", d.imports)
	}
	lost := &drivertest.Fence{}
	lost.LoseAfter(0)
	if err := m.SetMediaBoot(t.Context(), lost, n, "cdrom", false); !errors.Is(err, driver.ErrFenced) || len(d.imports) != 3 {
		t.Errorf("with the node lost: %v, %d imports", err, len(d.imports))
	}
	if err := m.SetMediaBoot(t.Context(), &drivertest.Fence{}, n, "disk", false); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a disk: %v", err)
	}
}

// Steps wait for jobs of others, and not for their own.
func TestStepsWaitForTheQueue(t *testing.T) {
	d, m := newDouble(t), management(t, redfish.Options{}, nil)
	d.addJob("JID_5", "Configure: RAID", "Scheduled")
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	ran := 0
	steps := behindQueue(m.Driver, []driver.Step{{Name: "apply_configuration", Run: func(context.Context, *driver.Task) (driver.Outcome, error) { ran++; return driver.Done(), nil }}})
	out, err := steps[0].Run(t.Context(), r.Task(networkboot.IPXE()))
	if _, waits := out.Waiting(); err != nil || !waits || ran != 0 {
		t.Errorf("with a job in the way: %v, waits %t, ran %d times", err, waits, ran)
	}
	late := r.Task(networkboot.IPXE())
	late.Entered = time.Now().Add(-longestQueue - time.Minute)
	if _, err := steps[0].Run(t.Context(), late); err == nil || !strings.Contains(err.Error(), "JID_5") || ran != 0 {
		t.Errorf("after %s: %v", longestQueue, err)
	}
	d.Do(func() { d.end("JID_5") })
	if _, err := steps[0].Run(t.Context(), r.Task(networkboot.IPXE())); err != nil || ran != 1 {
		t.Errorf("with the queue free: %v, ran %d times", err, ran)
	}
}
