package places

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
	states "github.com/ironyard/ironyard/protocol/provision"
)

// How long a BMC writes firmware, and is away when it starts again with its own. A rackd that looks every ten seconds sees it silent.
const (
	writes = 4 * time.Second
	away   = 8 * time.Second
)

// theNode and theFiles stand in a request for the node's id, and for the URL of firmware files.
const (
	theNode  = "THE-NODE"
	theFiles = "THE-FILES"
)

// filesPassword is that of the files. It may be in no log and no history.
const filesPassword = "f1rmware-word"

// newVersion is that of all files.
const newVersion = "2.0.0"

// firmwareFiles is a server of firmware. A path is /NODE/COMPONENT.
type firmwareFiles struct {
	url string

	mu      sync.Mutex
	fetched map[string]int // whole, by path
}

func (r *rig) addFirmware(t *testing.T) {
	t.Helper()
	f := &firmwareFiles{fetched: map[string]int{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if _, password, _ := q.BasicAuth(); password != filesPassword {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if _, err := w.Write(vbmc.FirmwareFile(filepath.Base(q.URL.Path), newVersion)); err == nil {
			f.mu.Lock()
			f.fetched[q.URL.Path]++
			f.mu.Unlock()
		}
	}))
	t.Cleanup(s.Close)
	f.url = strings.Replace(s.URL, "://", "://files:"+filesPassword+"@", 1)
	r.firmware = f
}

// times is how often a node's BMC has fetched a file.
func (f *firmwareFiles) times(id, component string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fetched["/"+id+"/"+component]
}

// updateOf is a step that writes firmware of components.
func updateOf(components ...string) string {
	var list []string
	for _, c := range components {
		list = append(list, fmt.Sprintf(`{"component":%q,"url":"%s/%s/%s"}`, c, theFiles, theNode, c))
	}
	return `{"interface":"firmware","step":"update","args":{"settings":[` + strings.Join(list, ",") + `]}}`
}

func cleanBy(steps ...string) request {
	return request{"/states/provision", `{"target":"clean","clean_steps":[` + strings.Join(steps, ",") + `]}`, "manageable"}
}

// longClean lets a cleaning wait for as long as a rackd looks for the traces of an order.
var longClean = []string{"--deadline", string(states.CleanWait) + "=4m", "--deadline", string(states.ServiceWait) + "=4m"}

// firmwareFlow is a flow with a step firmware.update.
func firmwareFlow(name string, f flow) flow {
	f = by(name, f, "firmware", "redfish")
	f.firmware, f.flags = true, longClean
	return f
}

// firmwareFlows write firmware: of a BMC, of the BIOS of a machine that is off, of both in a ramdisk and beneath an instance. Two have a
// BMC start again as it is.
var firmwareFlows = []flow{
	firmwareFlow("of a BMC", flow{name: "clean", way: []request{manage}, ask: cleanBy(updateOf("bmc")), end: "manageable"}),
	firmwareFlow("of a BIOS", flow{name: "clean", way: []request{manage}, ask: cleanBy(updateOf("bios")), end: "manageable"}),
	firmwareFlow("of BMC and BIOS in the ramdisk", flow{name: "clean", way: []request{manage}, end: "manageable",
		ask: cleanBy(updateOf("bmc", "bios"), `{"interface":"deploy","step":"erase_devices_metadata"}`)}),
	firmwareFlow("of BIOS and BMC", flow{name: "service", way: []request{manage, provide, deploy}, end: "active", ask: request{"/states/provision",
		`{"target":"service","service_steps":[` + updateOf("bios", "bmc") + `]}`, "active"}}),
	firmwareFlow("that restarts a BMC", flow{name: "clean", way: []request{manage}, ask: cleanBy(restartBMC), end: "manageable"}),
	firmwareFlow("that restarts a BMC in the ramdisk", flow{name: "service", way: []request{manage, provide, deploy}, end: "active", ask: request{"/states/provision",
		`{"target":"service","service_steps":[` + restartBMC + `,{"interface":"power","step":"reboot"}]}`, "active"}}),
}

// restartBMC is a step that has the BMC start again, as it is.
const restartBMC = `{"interface":"management","step":"reset_bmc"}`

// components are those that the flow writes.
func (f flow) components() (list []string) {
	for _, m := range regexp.MustCompile(`"component":"(\w+)"`).FindAllStringSubmatch(f.ask.body, -1) {
		list = append(list, m[1])
	}
	return list
}

const (
	atUpdate = "clean/firmware.update"
	atReset  = "clean/management.reset_bmc"
)

// quickFirmware are the places at which make test kills: around the order, when the BMC starts again, and around the machine's restart.
var quickFirmware = []place{
	{flow: firmwareFlows[0], point: "conductor.begun", detail: atUpdate},
	{flow: firmwareFlows[0], point: "conductor.handle", detail: atUpdate},         // before it is saved that the order is given next
	{flow: firmwareFlows[0], point: "conductor.handle", detail: atUpdate, nth: 2}, // the BMC has taken it, which is not saved
	{flow: firmwareFlows[0], point: "conductor.ran", detail: atUpdate},            // it is saved
	{flow: firmwareFlows[1], point: "conductor.handle", detail: atUpdate, nth: 2},
	{flow: firmwareFlows[1], point: "conductor.ran", detail: atUpdate, nth: 8}, // the machine restarts, or has
	{flow: firmwareFlows[4], point: "conductor.handle", detail: atReset},       // before it is saved that the order is given next
	{flow: firmwareFlows[4], point: "conductor.ran", detail: atReset},          // the BMC has taken it
}

// TestFirmwareAtEveryPlace updates firmware of BMCs, which fetch it and then start again, and of BIOSes, for which the machine restarts.
// The owner is killed at places of the step, and while the BMC has the order in its hands. The BMC fetches and writes once, and
// the flow ends as it does undisturbed. Without IRONYARD_CHAOS it is killed at a few places, in two flows.
func TestFirmwareAtEveryPlace(t *testing.T) {
	r, long := newRig(t), os.Getenv("IRONYARD_CHAOS") != ""
	r.addMachines(t, 1000, true)
	r.addFirmware(t)
	r.start(t, spareName, spare, "", longClean...)
	list := quickFirmware
	if long {
		list = r.everyTime(t, r.undisturbed(t, firmwareFlows))
	}
	r.killEverywhere(t, append(strikes(long), list...))
	for _, f := range audit.Check(r.machines.Journal.After(0, 0)) {
		t.Error(f)
	}
	said, err := filepath.Glob(filepath.Join(r.dir, "*.log"))
	if err != nil || len(said) < len(list) {
		t.Fatalf("%d logs: %v", len(said), err)
	}
	for _, name := range said {
		if text, err := os.ReadFile(name); err != nil || bytes.Contains(text, []byte(filesPassword)) {
			t.Errorf("%s holds the password of a firmware URL: %v", name, err)
		}
	}
}

// strikes are what happens to the owner of an update besides a kill at a point. For two minutes a rackd looks for the traces of an order
// that was lost.
func strikes(long bool) []place {
	at := func(point string, does func(r *rig, t *testing.T, group, name string)) place {
		return place{flow: firmwareFlows[0], point: point, detail: atUpdate, strikes: does}
	}
	list := []place{
		at("the BMC takes the order, and the rackd dies of it", func(r *rig, t *testing.T, group, name string) { r.killedByOrder(t, group, name, vbmc.Lost) }),
		at("the order comes late", (*rig).lateOrder),
	}
	if long {
		list = append(list, at("the order is lost with its rackd", func(r *rig, t *testing.T, group, name string) { r.killedByOrder(t, group, name, vbmc.Dropped) }))
	}
	return list
}

// everyTime adds the later times at which flows pass the points of the step. The looks of a run differ a little: the last times are left
// out.
func (r *rig) everyTime(t *testing.T, list []place) []place {
	t.Helper()
	for _, p := range slices.Clone(list) {
		if p.point != "conductor.handle" && p.point != "conductor.ran" || !strings.HasSuffix(p.detail, "/firmware.update") && !strings.HasSuffix(p.detail, "/management.reset_bmc") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.dir, "witness-"+strings.ReplaceAll(p.flow.name, " ", "-")+".log"))
		if err != nil {
			t.Fatal(err)
		}
		for p.nth = 2; p.nth < bytes.Count(text, []byte("failpoint "+p.point+"@"+p.detail+"\n"))-1; p.nth++ {
			list = append(list, p)
		}
	}
	return list
}

// wroteOnce checks that a machine's BMC has fetched and written the firmware of each component once, and that the API shows it. Nothing
// that is told of the node has the password.
func (r *rig) wroteOnce(t *testing.T, f flow, id string, m *fleet.Member) {
	t.Helper()
	var want []vbmc.Flash
	for _, c := range f.components() {
		want = append(want, vbmc.Flash{Component: c, Version: newVersion})
		if n := r.firmware.times(id, c); n != 1 {
			t.Errorf("the BMC fetched the firmware of the %s %d times", c, n)
		}
	}
	if got := m.BMC.Flashes(); !slices.Equal(got, want) {
		t.Errorf("the BMC wrote %v, want %v; its machine says\n%s", got, want, r.said(m, 0))
	}
	type component struct {
		Component string
		Current   string `json:"current_version"`
		Flashed   string `json:"last_version_flashed"`
	}
	var shown struct{ Firmware []component }
	if err := r.get("/v1/nodes/"+id+"/firmware", &shown); err != nil {
		t.Fatal(err)
	}
	for _, c := range f.components() {
		if !slices.Contains(shown.Firmware, component{c, newVersion, newVersion}) {
			t.Errorf("the API does not show the new firmware of the %s: %+v", c, shown)
		}
	}
	restarts := strings.Count(f.ask.body, restartBMC)
	if orders := r.ordered(m, "/Manager.Reset"); orders != restarts {
		t.Errorf("the BMC was told %d times to start again, want %d", orders, restarts)
	}
	r.tellsNoPassword(t, id)
}

// tellsNoPassword checks that nothing which is told of a node has the password of the files.
func (r *rig) tellsNoPassword(t *testing.T, id string) {
	t.Helper()
	for _, path := range []string{"", "/history?detail=true", "/firmware"} {
		if text, status, err := r.do("GET", "/v1/nodes/"+id+path, ""); err != nil || status != http.StatusOK || bytes.Contains(text, []byte(filesPassword)) {
			t.Errorf("%s: %d %v: %s", path, status, err, text)
		}
	}
}

// killedByOrder kills the owner when the BMC has its order: the order is taken and the answer lost, or it is lost itself. A successor finds
// the one's traces. Of the other there are none: it fails, says what may have happened, and gives no second order.
func (r *rig) killedByOrder(t *testing.T, group, name string, how vbmc.Spoilt) {
	f := firmwareFlows[0]
	id, m := r.begins(t, group, f)
	c := r.start(t, name, group, "", f.flags...)
	var once sync.Once
	m.BMC.Faults.Spoil(func(q *http.Request) (fate vbmc.Spoilt) {
		if strings.HasSuffix(q.URL.Path, ".SimpleUpdate") {
			once.Do(func() {
				fate = how
				_ = c.cmd.Process.Kill()
			})
		}
		return fate
	})
	r.request(t, id, f.ask)
	n := r.ends(t, id)
	if !c.killed() {
		t.Fatal("the rackd did not die of the order")
	}
	if how == vbmc.Lost {
		if !f.ended(n) {
			t.Errorf("it ended otherwise than without the kill: %s", n)
		}
		r.wroteOnce(t, f, id, m)
		return
	}
	if n.ProvisionState != string(states.CleanFail) || n.LastError == nil || !strings.Contains(*n.LastError, "it is not known whether the BMC has taken the order") {
		t.Errorf("of an order that was lost with its rackd: %s", n)
	}
	if len(m.BMC.Flashes()) != 0 || r.firmware.times(id, "bmc") != 0 {
		t.Errorf("the BMC fetched %d times, and wrote %v", r.firmware.times(id, "bmc"), m.BMC.Flashes())
	}
	r.tellsNoPassword(t, id)
}

// lateOrder stops the owner when it has looked whether to give its order, for as long as another one takes to do the work. When it goes on
// it gives no order: the work is not its own any more.
func (r *rig) lateOrder(t *testing.T, group, name string) {
	f := firmwareFlows[0]
	id, m := r.begins(t, group, f)
	c := r.start(t, name, group, "", f.flags...)
	var once sync.Once
	m.BMC.Faults.Spoil(func(q *http.Request) vbmc.Spoilt {
		if q.URL.Path == "/redfish/v1/UpdateService" { // by which it finds where to give it
			once.Do(func() {
				if err := stopped(c.cmd.Process); err != nil {
					t.Error(err)
				}
			})
		}
		return vbmc.Sound
	})
	r.request(t, id, f.ask)
	n := r.ends(t, id)
	if !f.ended(n) {
		t.Errorf("it ended otherwise than without the stop: %s", n)
	}
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.until(t, 30*time.Second, "the stopped rackd sees that it has lost the work", func() (bool, string) {
		text, err := os.ReadFile(c.log)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(text, []byte(`"work left to its next owner" node=`+id)), string(text)
	})
	r.wroteOnce(t, f, id, m)
	if orders := r.ordered(m, ".SimpleUpdate"); orders != 1 {
		t.Errorf("the BMC got %d orders", orders)
	}
}

// stopped stops a process, and returns once it stands still.
func stopped(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		if err != nil {
			return err
		}
		if bytes.Contains(stat, []byte(") T ")) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("the process does not stop")
}

// ordered counts the orders that a machine's BMC got by an action.
func (r *rig) ordered(m *fleet.Member, action string) (n int) {
	for _, record := range r.machines.Journal.After(0, 0) {
		if record.Machine == m.Name && record.Kind == journal.BMCWrite && strings.Contains(record.Detail, action) {
			n++
		}
	}
	return n
}
