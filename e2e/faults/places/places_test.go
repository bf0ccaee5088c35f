package places

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/protocol/failpoint"
	states "github.com/ironyard/ironyard/protocol/provision"
	_ "github.com/ironyard/ironyard/rackd/conductor" // its points
)

var passed = regexp.MustCompile(`(?m)^failpoint (\S+)@(.*)$`)

// place is where a flow passes a point.
type place struct {
	flow   flow
	point  string
	detail string
	nth    int // time that the flow passes it; 0: the first
	// strikes is what happens to the owner instead of a kill at the point; nil: nothing else.
	strikes func(r *rig, t *testing.T, group, name string)
}

func (p place) String() string {
	s := fmt.Sprintf("%s/%s@%s", p.flow.name, strings.TrimPrefix(p.point, "conductor."), strings.ReplaceAll(p.detail, "/", "·"))
	if p.nth > 1 {
		s += fmt.Sprint(" ", p.nth)
	}
	return s
}

// kills is what kills a rackd there.
func (p place) kills() string {
	s := p.point + "@" + p.detail + "=kill"
	if p.nth > 1 {
		s += fmt.Sprint("#", p.nth)
	}
	return s
}

// TestMain lets all lanes run side by side, for they mostly wait for leases to end. On a busy host -parallel says how many do.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		flag.Set("test.parallel", strconv.Itoa(lanes))
	}
	dir, err := os.MkdirTemp("", "ironyard-places-")
	if err != nil {
		panic(err)
	}
	rackd = filepath.Join(dir, "rackd")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// TestEveryPlace kills the owner at every place of every flow. The work ends as it
// does without that. Where several flows run one step, make test kills in the first; make chaos kills in each.
func TestEveryPlace(t *testing.T) {
	r := newRig(t)
	r.start(t, spareName, spare, "")
	list := r.undisturbed(t, flows)
	if os.Getenv("IRONYARD_CHAOS") == "" {
		list = firsts(list)
	}
	r.killEverywhere(t, list)
}

// TestEveryPlaceOnMachines does so with machines that have a BMC, boot an agent and
// have their disks written. None is written twice for one piece of work, none is
// touched by an owner of the past. Then, at places of each flow, what happens to machines
// and nodes beside that happens. Agents know only the spare rackd, which hands on
// what they say. Where several flows run one step, make test kills in the last: TestEveryPlace does in the first. make chaos kills in each.
// make test kills here in flows by other ways, too: TestEveryPlaceOfWays and TestEveryPlaceOfFirmwareWays
// have their verdict.
func TestEveryPlaceOnMachines(t *testing.T) {
	r, long := newRig(t), os.Getenv("IRONYARD_CHAOS") != ""
	r.addMachines(t, 4000, !long)
	r.start(t, spareName, spare, "")
	flows := machineFlows
	if !long {
		flows = append(slices.Clone(machineFlows), quickWays()...)
	}
	list := r.undisturbed(t, flows)
	killed := list
	if !long {
		killed = slices.DeleteFunc(slices.Clone(list), func(p place) bool { return p.flow.ways() })
		slices.Reverse(killed)
		killed = append(owns(list), firsts(killed)...)
	}
	r.killEverywhere(t, killed)
	r.happen(t, machineFlows, list, long)
	for _, f := range audit.Check(r.machines.Journal.After(0, 0)) {
		t.Error(f)
	}
	counts := map[journal.Kind]uint64{}
	for _, m := range r.machines.Members {
		for kind, n := range r.machines.Journal.Counts(m.Name) {
			counts[kind] += n
		}
	}
	t.Logf("the machines' journals: %v", counts)
	if counts[journal.WriteEnded] == 0 || counts[journal.BMCWrite] == 0 {
		t.Error("nothing was written")
	}
}

// TestEveryPlaceOfHolds does so with flows that an operator's hold stops: make test has each event at one place of each, make chaos kills
// everywhere too.
func TestEveryPlaceOfHolds(t *testing.T) {
	r := newRig(t)
	r.addMachines(t, 2000, false)
	r.start(t, spareName, spare, "")
	list, long := r.undisturbed(t, heldFlows), os.Getenv("IRONYARD_CHAOS") != ""
	if long {
		r.killEverywhere(t, list)
	}
	r.happen(t, heldFlows, list, long)
	for _, f := range audit.Check(r.machines.Journal.After(0, 0)) {
		t.Error(f)
	}
}

// TestOnceOnlyMethod kills the owner while it runs a vendor method that must not be done
// twice: the successor does not do it, and the node says that it may have been done.
func TestOnceOnlyMethod(t *testing.T) {
	r := newRig(t)
	r.start(t, spareName, spare, "")
	for i, c := range []struct {
		point string
		calls string // that central has been told of
	}{{"conductor.begun", ""}, {"conductor.ran", ""}, {"conductor.end", `{"log_passthrough":1}`}} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("victim-%d", i)
			id, _ := r.enrolled(t, lane(i), flow{way: []request{manage}})
			victim := r.start(t, name, lane(i), c.point+"@adjust/vendor.log_passthrough=kill")
			r.until(t, 10*time.Second, "the method is called", func() (bool, string) {
				text, status, err := r.do("POST", "/v1/nodes/"+id+"/vendor_passthru/log_passthrough", "{}")
				if err != nil {
					t.Fatal(err)
				}
				return status == http.StatusAccepted, fmt.Sprintf("%d %s", status, text)
			})
			n := r.rest(t, id)
			if !victim.killed() {
				t.Errorf("%s did not die there: %s", name, victim.cmd.ProcessState)
			}
			if n.LastError == nil || !strings.Contains(*n.LastError, "vendor.log_passthrough was running when its rackd was lost") || n.ProvisionState != "manageable" {
				t.Errorf("the caller is told %s", n)
			}
			var machine struct {
				Info struct {
					State struct {
						Calls json.RawMessage `json:"vendor_calls"`
					} `json:"driver_state"`
				} `json:"driver_internal_info"`
			}
			if err := r.get("/v1/nodes/"+id, &machine); err != nil || string(machine.Info.State.Calls) != c.calls {
				t.Errorf("called %s, want %s: %v", machine.Info.State.Calls, c.calls, err)
			}
		})
	}
}

func (r *rig) killEverywhere(t *testing.T, list []place) {
	t.Helper()
	var next, died atomic.Int64
	t.Run("killed", func(t *testing.T) {
		for i := range lanes {
			t.Run(lane(i), func(t *testing.T) {
				t.Parallel()
				for {
					n := int(next.Add(1)) - 1
					if n >= len(list) {
						return
					}
					t.Run(list[n].String(), func(t *testing.T) {
						name := fmt.Sprintf("victim-%d", n)
						if strikes := list[n].strikes; strikes != nil {
							strikes(r, t, lane(i), name)
							return
						}
						r.kill(t, lane(i), name, list[n])
						died.Add(1)
					})
				}
			})
		}
	})
	t.Logf("%d rackds were killed", died.Load())
}

// firsts leaves one place of those at which several flows run one step. Where no step runs, each flow keeps its own.
func firsts(list []place) (kept []place) {
	seen := map[string]bool{}
	for _, p := range list {
		if _, step, _ := strings.Cut(p.detail, "/"); step != "" {
			key := p.point + "@" + step
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		kept = append(kept, p)
	}
	return kept
}

// undisturbed runs each flow without a kill, each in a lane, and returns the places that they passed.
func (r *rig) undisturbed(t *testing.T, flows []flow) (list []place) {
	t.Helper()
	if len(flows) > groups {
		t.Fatalf("%d flows, and %d groups for them", len(flows), groups)
	}
	var all []string
	for _, name := range failpoint.Names() {
		if strings.HasPrefix(name, "conductor.") {
			all = append(all, name+"=print")
		}
	}
	logs := make([][]byte, len(flows))
	done := t.Run("undisturbed", func(t *testing.T) {
		for i, f := range flows {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				logs[i] = r.witnessed(t, lane(i), f, strings.Join(all, ";"))
			})
		}
	})
	if !done {
		t.FailNow()
	}
	walked := 0 // -run may have chosen some
	for i, f := range flows {
		if logs[i] != nil {
			walked++
		}
		for _, m := range passed.FindAllStringSubmatch(string(logs[i]), -1) {
			p := place{flow: f, point: m[1], detail: m[2]}
			if !slices.ContainsFunc(list, func(o place) bool { return o.String() == p.String() }) {
				list = append(list, p)
			}
		}
	}
	t.Logf("%d flows pass %d places", walked, len(list))
	if walked == 0 || len(list) < 10*walked {
		t.Fatalf("only %d places: %v", len(list), list)
	}
	return list
}

// witnessed runs a flow in a group and returns what its rackd logged.
func (r *rig) witnessed(t *testing.T, group string, f flow, points string) []byte {
	t.Helper()
	defer r.turn(f)()
	id, m := r.begins(t, group, f)
	begun := r.begun()
	c := r.start(t, "witness-"+strings.ReplaceAll(f.name, " ", "-"), group, points, r.flags(f)...)
	r.request(t, id, f.ask)
	n := r.ends(t, id)
	if !f.ended(n) {
		t.Fatalf("%s, undisturbed: %s%s", f.name, n, r.machineSaid(m, begun))
	}
	f.leaves(t, m)
	if f.firmware {
		r.wroteOnce(t, f, id, m)
	}
	if f.ways() {
		left := r.rests(t, f, id, m, begun)
		if left.Targets != f.targets || left.Ephemeral.Made != f.ephemeral {
			t.Errorf("%s: %d iSCSI targets died, want %d, and an ephemeral partition was made %d times, want %d", f.name, left.Targets, f.targets, left.Ephemeral.Made, f.ephemeral)
		}
		r.left.Store(f.name, left)
	}
	c.cmd.Process.Kill()
	c.cmd.Wait()
	text, err := os.ReadFile(c.log)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// begins brings a node and its machine to where the flow begins.
func (r *rig) begins(t *testing.T, group string, f flow) (string, *fleet.Member) {
	t.Helper()
	id, m := r.enrolled(t, group, f)
	if f.breaks != nil {
		f.breaks(m.Faults)
	}
	if f.firmware {
		m.BMC.FirmwareTakes(writes)
		m.BMC.Faults.Away(away)
	}
	if f.ways() {
		r.still(t, m) // what the instance before does is not the flow's
	}
	return id, m
}

// leaves checks how the flow leaves its machine that ends as it does undisturbed. In a hold and in rescue the ramdisk runs. After all
// others it is gone, with no boot into it ahead and nothing in the drive, and those that fail here leave their machine off.
func (f flow) leaves(t *testing.T, m *fleet.Member) {
	t.Helper()
	if in, _ := states.Describe(states.State(f.end)); m == nil || in.Kind == states.Held || in.State == states.Rescue { // fake hardware has no machine
		return
	}
	if f.fails != "" && m.Machine.On() {
		t.Errorf("%s left machine %s on", f.name, m.Name)
	}
	f.leavesNoRamdisk(t, m)
	f.leavesNoBoot(t, m)
}

// leavesFailed checks how the flow leaves its machine that has ended as n with an error. An undeploy and a cleaning leave it off, and the
// others off where it was off. A deploy, a rescue and an inspection do so too once an agent has come up in them. No event here switches a
// machine on. A failed service may leave the ramdisk to look at.
func (f flow) leavesFailed(t *testing.T, m *fleet.Member, off, up bool, n node) {
	t.Helper()
	f.leavesNoBoot(t, m)
	state := states.State(n.ProvisionState)
	if state != states.ServiceFail {
		f.leavesNoRamdisk(t, m)
	}
	off = off && f.ask.path != powerPath || state == states.Error || state == states.CleanFail ||
		up && slices.Contains([]states.State{states.DeployFail, states.RescueFail, states.InspectFail}, state)
	if off && m.Machine.On() {
		t.Errorf("%s left machine %s on in %s", f.name, m.Name, state)
	}
}

// leavesNoRamdisk checks that the ramdisk does not run.
func (f flow) leavesNoRamdisk(t *testing.T, m *fleet.Member) {
	t.Helper()
	if m.Machine.Status().State == machine.InRamdisk {
		t.Errorf("%s left machine %s in the ramdisk", f.name, m.Name)
	}
}

// leavesNoBoot checks that no boot into the ramdisk is ahead of the machine.
func (f flow) leavesNoBoot(t *testing.T, m *fleet.Member) {
	t.Helper()
	if device, once := m.Machine.BootOverride(); once {
		t.Errorf("%s left machine %s with %s as the device of its next boot", f.name, m.Name, device)
	}
	if image := m.BMC.Inserted(); image != "" && !f.ways() {
		t.Errorf("%s left machine %s with %s in its drive", f.name, m.Name, image)
	}
}

// kill runs the flow with an owner that dies at the place.
func (r *rig) kill(t *testing.T, group, name string, p place) {
	defer r.turn(p.flow)()
	id, m := r.begins(t, group, p.flow)
	begun := r.begun()
	c := r.start(t, name, group, p.kills(), r.flags(p.flow)...)
	r.request(t, id, p.flow.ask)
	n := r.ends(t, id)
	if !p.flow.ended(n) {
		t.Errorf("ended otherwise than without the kill: %s%s", n, r.machineSaid(m, begun))
	}
	p.flow.leaves(t, m)
	if p.flow.firmware {
		r.wroteOnce(t, p.flow, id, m)
	}
	if want, known := r.left.Load(p.flow.name); known {
		r.startedAgain(t, p, id, m)
		if got := r.rests(t, p.flow, id, m, begun); got != want {
			t.Errorf("it leaves its machine as\n%+v, and undisturbed as\n%+v; the machine says\n%s", got, want, r.said(m, begun))
		}
	}
	if !c.killed() {
		t.Errorf("%s did not die there: %s", name, c.cmd.ProcessState)
	}
	var history struct {
		History []struct{ Event string }
	}
	if err := r.get("/v1/nodes/"+id+"/history?detail=true", &history); err != nil {
		t.Fatal(err)
	}
	if p.point == "conductor.take" || p.point == "conductor.result" {
		return // the victim's name never came into the document, or the work was over
	}
	if !slices.ContainsFunc(history.History, func(h struct{ Event string }) bool { return strings.Contains(h.Event, "takeover: from "+name) }) {
		t.Errorf("history does not tell of the takeover: %v", history)
	}
}
