package places

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
	states "github.com/ironyard/ironyard/protocol/provision"
)

// badWrites is how long a bad BMC writes its firmware.
const badWrites = time.Second

// firmwareRounds is how often an operator asks again at most.
const firmwareRounds = 12

// TestBadBMCsFirmware has a thousand bad BMCs, twenty without IRONYARD_CHAOS, write new firmware of their own and start again with it. A
// rackd of two dies a while after half of the orders were given. An operator asks again where the BMC shows its old version when the node
// rests. Each BMC writes once, and takes one order of one request.
func TestBadBMCsFirmware(t *testing.T) {
	r := newRig(t)
	r.addFirmware(t)
	f := lightFleet(t, "bad", manyBMCs(20), "127.86.0.0/16")
	flags := []string{"--drivers", "redfish", "--bmc-networks", "127.0.0.0/8", "--fetch-from", "127.0.0.0/8", "--power-recovery", "5s"} // all of it is on this machine
	r.start(t, spareName, spare, "", flags...)
	victim := r.start(t, "bad-1", lane(0), "", flags...)
	r.start(t, "bad-2", lane(0), "", flags...)
	all := r.enrolBad(t, f)
	r.provisioned(t, all, manage.body, states.Manageable)
	dies := badWrites // the BMCs write, or start again
	if len(all) > 20 {
		dies = 0 // amid the orders: rackds look for two minutes for those that were lost
	}
	var came moods
	came.upset(f)
	var orders atomic.Int64
	for i, m := range f.Members {
		m.BMC.FirmwareTakes(badWrites)
		fate := came.moody(uint64(i))
		m.BMC.Faults.Spoil(func(q *http.Request) vbmc.Spoilt {
			if strings.HasSuffix(q.URL.Path, ".SimpleUpdate") && orders.Add(1) == int64(len(all)+1)/2 {
				time.AfterFunc(dies, func() { _ = victim.cmd.Process.Kill() })
			}
			return fate(q)
		})
	}
	requests, why := r.flashedOnce(t, all, f)
	if !victim.killed() {
		t.Error("the rackd did not die amid the orders")
	}
	t.Logf("%d BMCs wrote once each and started again with it; %d requests, of which %v; %d orders were given", len(all), requests, why, orders.Load())
	came.all(t)
	said, err := os.ReadFile(victim.log)
	if err != nil || strings.Contains(string(said), "X-Auth-Token") || strings.Contains(string(said), filesPassword) {
		t.Errorf("the log of a rackd holds the token of a session, or the password of a file: %v", err)
	}
}

// flashedOnce has all BMCs of a fleet write new firmware of their own. It returns how often that was asked for, and what else was told than
// that it is done.
func (r *rig) flashedOnce(t *testing.T, all []*asked, f *fleet.Fleet) (requests int, why map[string]int) {
	t.Helper()
	begun := f.Journal.Last()
	clean := strings.ReplaceAll(cleanBy(updateOf("bmc")).body, `"url"`, `"wait":30,"url"`)
	ask := all
	why = map[string]int{}
	for range firmwareRounds {
		if len(ask) == 0 {
			break
		}
		requests += len(ask)
		ended := r.asked(t, ask, clean)
		var again []*asked
		for _, a := range ask {
			n, shown := ended[a.id], f.Member(a.machine).BMC.Flashes()
			told := r.toldFlashed(t, a.id)
			switch {
			case told && len(shown) != 1:
				t.Errorf("%s is told as flashed, and wrote %v", a.machine, shown)
			case !told && n.LastError == nil && len(shown) == 0:
				why["told as unchanged"]++ // it lost the update when it started again
			case n.LastError != nil:
				why["failed, with a reason"]++
			case !told:
				t.Errorf("%s wrote %v, and that is not told: %s", a.machine, shown, n)
			}
			if len(shown) == 0 {
				again = append(again, a)
			}
		}
		if ask = again; len(ask) > 0 {
			r.provisioned(t, all, manage.body, states.Manageable) // also those that failed
			r.takeBack(t, ask, ended)
		}
	}
	if len(ask) > 0 {
		t.Errorf("%d BMCs have their old firmware after %d rounds", len(ask), firmwareRounds)
	}
	taken := map[string]int{} // orders, by the request
	for _, record := range f.Journal.After(begun, 0) {
		if record.Kind == journal.BMCWrite && strings.Contains(record.Detail, ".SimpleUpdate") && record.Status == http.StatusAccepted {
			taken[record.Work]++
		}
	}
	for work, n := range taken {
		if n > 1 {
			t.Errorf("the request %s has given %d orders that were taken", work, n)
		}
	}
	for _, a := range all {
		if wrote := f.Member(a.machine).BMC.Flashes(); len(wrote) != 1 || wrote[0].Version != newVersion {
			t.Errorf("%s wrote %v", a.machine, wrote)
		}
	}
	return requests, why
}

// takeBack takes nodes out of the maintenance that a failed cleaning has put them into, as an operator does who has read why.
func (r *rig) takeBack(t *testing.T, all []*asked, ended map[string]node) {
	t.Helper()
	inParallel(len(all), func(i int) {
		if !ended[all[i].id].Maintenance {
			return
		}
		if text, status, err := r.do("DELETE", "/v1/nodes/"+all[i].id+"/maintenance", ""); err != nil || status != http.StatusAccepted {
			t.Errorf("the end of a maintenance: %d %s %v", status, text, err)
		}
	})
}

// toldFlashed reports whether the API tells that a node's BMC has the new firmware, by an update.
func (r *rig) toldFlashed(t *testing.T, id string) bool {
	t.Helper()
	var shown struct {
		Firmware []struct {
			Component string
			Flashed   string `json:"last_version_flashed"`
		}
	}
	if err := r.get("/v1/nodes/"+id+"/firmware", &shown); err != nil {
		t.Fatal(err)
	}
	for _, c := range shown.Firmware {
		if c.Component == "bmc" && c.Flashed == newVersion {
			return true
		}
	}
	return false
}

// provisioned asks nodes that are not in a state to come to it, until all have.
func (r *rig) provisioned(t *testing.T, all []*asked, body string, state states.State) {
	t.Helper()
	now := r.resting(t, all)
	for range firmwareRounds {
		var ask []*asked
		for _, a := range all {
			if now[a.id].ProvisionState != string(state) {
				ask = append(ask, a)
			}
		}
		if len(ask) == 0 {
			return
		}
		now = r.asked(t, ask, body)
		for _, a := range all {
			if _, had := now[a.id]; !had {
				now[a.id] = node{ProvisionState: string(state)}
			}
		}
		time.Sleep(time.Second) // refused credentials rest as long
	}
	t.Fatalf("the nodes do not come to %s: %v", state, now)
}

// asked asks nodes for a provision state, and returns how they are when all rest.
func (r *rig) asked(t *testing.T, ask []*asked, body string) map[string]node {
	t.Helper()
	inParallel(len(ask), func(i int) {
		q := strings.NewReplacer(theNode, ask[i].id, theFiles, r.firmware.url).Replace(body)
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			text, status, err := r.do("PUT", "/v1/nodes/"+ask[i].id+"/states/provision", q)
			if err == nil && status == http.StatusAccepted {
				return
			}
			if status == http.StatusBadRequest || time.Now().After(end) {
				t.Errorf("%s is not accepted: %d %s %v", body, status, text, err)
				return
			}
		}
	})
	return r.resting(t, ask)
}

// resting waits until nodes rest, and returns how they are.
func (r *rig) resting(t *testing.T, all []*asked) map[string]node {
	t.Helper()
	var now map[string]node
	r.untilEvery(t, time.Second, 10*time.Minute+time.Duration(len(all))*time.Second, "all nodes rest", func() (bool, string) {
		var list struct{ Nodes []node }
		if err := r.get("/v1/nodes?limit=1000&fields=uuid,provision_state,target_provision_state,last_error,reservation,maintenance,fault", &list); err != nil {
			return false, err.Error()
		}
		shown := map[string]node{}
		for _, n := range list.Nodes {
			shown[n.UUID] = n
		}
		now = map[string]node{}
		open, last := 0, ""
		for _, a := range all {
			n := shown[a.id]
			if now[a.id] = n; n.Reservation != nil || states.Transient(states.State(n.ProvisionState)) {
				open++
				last = n.String()
			}
		}
		return open == 0, fmt.Sprintf("%d of %d do not, as %s", open, len(all), last)
	})
	return now
}
