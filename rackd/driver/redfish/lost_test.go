package redfish

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A BMC that answers 401 to one request of a good session keeps the session: it is closed before another is opened.
func TestSessionsAreNotLeftBehind(t *testing.T) {
	e, d := newEmulator(t), newDriver(t, Options{})
	e.set(func() {
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/Actions/Reset") {
				refuse(w, 401, "this user may not")
				return true
			}
			return false
		}
	})
	for range 10 {
		if err := d.SetPower(t.Context(), &drivertest.Fence{}, e.node(nil), driver.PowerOn); !errors.Is(err, driver.ErrDenied) {
			t.Fatalf("%v, want ErrDenied", err)
		}
	}
	if got := e.live(); got > 1 {
		t.Errorf("%d sessions are open at the BMC, want one", got)
	}
}

// A session that the BMC has forgotten when the order comes costs a login, and the order is given.
func TestOrdersOfAForgottenSession(t *testing.T) {
	for _, name := range []string{"create_configuration", "delete_configuration", "update"} {
		t.Run(name, func(t *testing.T) {
			k := newRack()
			if name == "delete_configuration" {
				k.volumes[volumesAt+"/9"] = map[string]any{"@odata.id": volumesAt + "/9", "Id": "9", "RAIDType": "RAID1", "CapacityBytes": int64(100) << 30}
			}
			e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
			var forgot atomic.Bool
			e.set(func() {
				e.hook = func(w http.ResponseWriter, r *http.Request) bool {
					order := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "Sessions")
					if order && forgot.CompareAndSwap(false, true) {
						e.set(func() { clear(e.sessions) })
						refuse(w, 401, "who are you")
						return true
					}
					return k.serve(w, r)
				}
			})
			r.Node.DriverInfo = e.node(nil).DriverInfo
			r.Node.TargetRAID = disksOf(map[string]any{"raid_level": "1", "size_gb": 100.0})
			steps := append(RAID{Driver: d}.NamedSteps(r.Node), Firmware{Driver: d}.NamedSteps(r.Node)...)
			args := map[string]any{}
			if name == "update" {
				args = biosOnly
			}
			if err := tried(t, r, stepNamed(t, steps, name), args); err != nil {
				t.Errorf("%v", err)
			}
			if len(k.writes) != 1 {
				t.Errorf("the BMC was told %q, want one order", k.writes)
			}
		})
	}
}

// A BMC that answers 500 to an order for the power may have taken it: that is not known, and is read back.
func TestAResetThatIsAnswered500(t *testing.T) {
	for _, target := range []driver.PowerState{driver.PowerOn, driver.Rebooting} {
		e, d := newEmulator(t), newDriver(t, Options{})
		e.set(func() {
			if target == driver.Rebooting {
				e.power = "On"
			}
			var reads atomic.Int64 // of the system, after the reset
			e.hook = func(w http.ResponseWriter, r *http.Request) bool {
				switch reset := strings.HasSuffix(r.URL.Path, "/Actions/Reset"); {
				case r.Method == http.MethodPost && reset:
					reads.Store(1)
					refuse(w, 500, "internal error")
					return true
				case reads.Load() > 0 && r.Method == http.MethodGet && reads.Add(1) > 2: // not at the first
					e.set(func() { e.power = "On" })
				}
				return false
			}
		})
		if err := d.SetPower(t.Context(), &drivertest.Fence{}, e.node(nil), target); !errors.Is(err, driver.ErrUnknown) {
			t.Errorf("%s: %v, want ErrUnknown", target, err)
		}
	}
}

// A BMC whose reset was never ordered is not told as reset because its session is over.
func TestABMCResetThatWasNeverOrdered(t *testing.T) {
	m := newModel("Contoso")
	r, d := modelRig(t, m)
	step := stepNamed(t, Management{Driver: d, Rest: 1}.NamedSteps(r.Node), "reset_bmc")
	task := r.Task(nobody{})
	r.LoseAfter(0) // the node is lost between the checkpoint and the order
	if _, err := step.Run(t.Context(), task); !errors.Is(err, driver.ErrFenced) {
		t.Fatalf("%v, want ErrFenced", err)
	}
	if len(m.written()) != 0 {
		t.Fatalf("the BMC got %q", m.written())
	}
	if err := d.Close(t.Context()); err != nil { // the rackd hands over in order, and logs out
		t.Fatal(err)
	}
	r.LoseAfter(1 << 30)
	next := newDriver(t, Options{})
	err := runStep(t, r, stepNamed(t, Management{Driver: next, Rest: 1}.NamedSteps(r.Node), "reset_bmc"), nil)
	if err == nil && len(m.written()) == 0 {
		t.Errorf("the reset counts as made, and the BMC got no order; history: %q", r.Phases)
	}
}

// A drive of a manager with several systems is none of one of them: what is in it may be another machine's.
func TestTheMediumOfAnotherSystemStays(t *testing.T) {
	const two, manager, cd = "/redfish/v1/Systems/2", "/redfish/v1/Managers/1", "/redfish/v1/Managers/1/VirtualMedia/CD1"
	m := newModel("Contoso")
	second := map[string]any{}
	merge(second, m.at[systemAt])
	second["@odata.id"], second["Id"] = two, "2"
	merge(m.at[manager], map[string]any{"VirtualMedia": link(manager + "/VirtualMedia"),
		"Links": map[string]any{"ManagerForServers": []any{link(systemAt), link(two)}, "ManagerForServers@odata.count": 2}})
	m.put(map[string]map[string]any{two: second, manager + "/VirtualMedia": links(cd),
		cd: {"@odata.id": cd, "Id": "CD1", "MediaTypes": []any{"CD", "DVD"}, "Image": "http://rack/second.iso", "Inserted": true,
			"Actions": map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"target": cd + "/Insert"}, "#VirtualMedia.EjectMedia": map[string]any{"target": cd + "/Eject"}}}})
	m.after = func(m *model, r *http.Request, body map[string]any) {
		m.at[cd]["Inserted"], m.at[cd]["Image"] = strings.HasSuffix(r.URL.Path, "Insert"), body["Image"]
	}
	r, d := modelRig(t, m)
	r.Node.DriverInfo[fieldSystem] = systemAt
	f := &drivertest.Fence{}
	if err := d.DetachMedia(t.Context(), f, r.Node, nil); err != nil && !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("detach: %v", err)
	}
	if err := d.AttachMedia(t.Context(), f, r.Node, "cdrom", "http://rack/first.iso"); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("attach: %v, want ErrUnsupported", err)
	}
	if got := m.at[cd]["Image"]; got != "http://rack/second.iso" {
		t.Errorf("the drive of the other system holds %v", got)
	}
}

// A task that another node of the same BMC has made is not taken for the order's.
func TestTheTaskOfAnotherNode(t *testing.T) {
	k := newRack()
	bmc := &doubtful{rack: k, lists: true}
	e, d := newEmulator(t), newDriver(t, Options{})
	e.set(func() { e.hook = bmc.serve })
	f := Firmware{Driver: d}
	one, two := drivertest.NewRig(), drivertest.NewRig()
	one.Node.DriverInfo, two.Node.DriverInfo = e.node(nil).DriverInfo, e.node(nil).DriverInfo
	two.Node.UUID, two.Node.Name = "7777", "web2"
	step := stepNamed(t, f.NamedSteps(one.Node), "update")
	run := func(r *drivertest.Rig, args map[string]any) error {
		task := r.Task(nobody{})
		task.Args = args
		_, err := step.Run(t.Context(), task)
		return err
	}
	bmc.before = http.StatusServiceUnavailable // it is busy
	if err := run(one, biosOnly); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("%v, want ErrUnreachable", err)
	}
	bmc.before = 0
	other := map[string]any{"settings": []any{map[string]any{"component": "bmc", "url": "http://files/of-two.bin"}}}
	if err := run(two, other); err != nil {
		t.Fatal(err)
	}
	if err := tried(t, one, step, biosOnly); err != nil {
		t.Logf("the first node's step: %v", err)
	}
	if !slices.Contains(k.writes, "update http://files/bios.bin") {
		t.Errorf("the first node's firmware was never ordered; the BMC was told %q, the node's history says %q", k.writes, one.Phases)
	}
}

// What a BMC answers while it starts, an answer that breaks off or one without a power state, is no refusal: it may be asked again.
func TestHalfAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"breaks off":          `{"@odata.id":"/redfish/v1/Systems/1","Id":"1","Power`,
		"a page":              `<html>starting</html>`,
		"nothing":             ``,
		"no power state":      `{"@odata.id":"/redfish/v1/Systems/1","Id":"1","PowerState":null}`,
		"unknown power state": `{"@odata.id":"/redfish/v1/Systems/1","Id":"1","PowerState":"Unknown"}`,
		"the list breaks off": ``,
		"the list is a page":  ``,
	} {
		t.Run(name, func(t *testing.T) {
			e, d := newEmulator(t), newDriver(t, Options{})
			var half atomic.Bool
			e.set(func() {
				e.hook = func(w http.ResponseWriter, r *http.Request) bool {
					path := strings.TrimSuffix(r.URL.Path, "/")
					switch {
					case !half.Load() || r.Method != http.MethodGet:
						return false
					case path == systemAt && !strings.HasPrefix(name, "the list"):
						_, _ = w.Write([]byte(body))
						return true
					case path == "/redfish/v1/Systems" && name == "the list breaks off":
						_, _ = w.Write([]byte(`{"Members":[{"@odata`))
						return true
					case path == "/redfish/v1/Systems" && name == "the list is a page":
						_, _ = w.Write([]byte(`<html>`))
						return true
					}
					return false
				}
			})
			half.Store(true)
			if _, err := d.PowerState(t.Context(), e.node(nil)); !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("%v, want ErrUnreachable", err)
			}
			half.Store(false)
			if _, err := d.PowerState(t.Context(), e.node(nil)); err != nil {
				t.Error(err)
			}
		})
	}
}
