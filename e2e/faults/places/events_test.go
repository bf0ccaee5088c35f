package places

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	states "github.com/ironyard/ironyard/protocol/provision"
)

// event is something that happens to a node while its flow stands at a place. docs/flows.md has the
// verdicts, which were written before the first run.
type event struct {
	name string
	// happens does it, and returns whether the flow may end otherwise than undisturbed.
	happens func(t *testing.T, r *rig, s subject) (may verdict)
}

// stands is how long a flow stands at a place for an event.
const stands = time.Second

// subject is the node of one run, and its machine.
type subject struct {
	id   string
	m    *fleet.Member
	came time.Time // when the flow had not come to the place yet
}

// stood reports whether the flow certainly stands at its place still.
func (s subject) stood() bool { return time.Since(s.came) < stands }

// verdict is how a flow may end besides as it does undisturbed.
type verdict int

const (
	undisturbed verdict = iota
	aborted             // in the state that an abort leads to, or in its end with a word on the abort
	loud                // in a failure of the flow that says why, and leaves the machine as its row says
	gone                // not at all: the node was deleted after it
)

var events = []event{
	{"maintenance", inMaintenance},
	{"abort", func(t *testing.T, r *rig, s subject) verdict {
		if r.try(t, "PUT", s, "/states/provision", `{"target":"abort"}`, http.StatusAccepted, http.StatusConflict, http.StatusBadRequest) == http.StatusAccepted {
			return aborted
		}
		return undisturbed
	}},
	{"driver_info", func(t *testing.T, r *rig, s subject) verdict {
		r.try(t, "PATCH", s, "", `[{"op":"add","path":"/driver_info/redfish_auth_type","value":"basic"}]`, http.StatusOK, http.StatusConflict)
		return undisturbed
	}},
	{"group", func(t *testing.T, r *rig, s subject) verdict {
		r.try(t, "PATCH", s, "", `[{"op":"add","path":"/conductor_group","value":"`+spare+`"}]`, http.StatusOK, http.StatusConflict, http.StatusBadRequest)
		return undisturbed
	}},
	{"delete", func(t *testing.T, r *rig, s subject) verdict {
		if r.try(t, "DELETE", s, "", "", http.StatusConflict, http.StatusForbidden, http.StatusNoContent) != http.StatusNoContent {
			return undisturbed
		}
		if s.stood() {
			t.Error("the node was deleted while its flow ran")
		}
		return gone
	}},
	{"power button", func(t *testing.T, _ *rig, s subject) verdict {
		if err := s.m.Machine.Shutdown(t.Context()); err != nil && !errors.Is(err, machine.ErrOff) {
			t.Error(err)
		}
		return loud
	}},
	{"agent reboots", func(t *testing.T, _ *rig, s subject) verdict {
		if err := s.m.Machine.Glitch(); err != nil && !errors.Is(err, machine.ErrOff) {
			t.Error(err)
		}
		return loud
	}},
}

// stepEnds is how long a step lasts at most that runs when the maintenance begins.
const stepEnds = 5 * time.Second

// inMaintenance takes the node into maintenance for a while. Once the step that ran has ended, nothing is sent to the
// machine until the maintenance is over.
func inMaintenance(t *testing.T, r *rig, s subject) verdict {
	r.try(t, "PUT", s, "/maintenance", `{"reason":"a person is at the machine"}`, http.StatusAccepted)
	time.Sleep(stepEnds)
	before := r.sent(s.m.Name)
	time.Sleep(2 * time.Second)
	if after := r.sent(s.m.Name); after != before {
		t.Errorf("%d writes and commands were sent to the machine in maintenance", after-before)
	}
	r.try(t, "DELETE", s, "/maintenance", "", http.StatusAccepted)
	return undisturbed
}

// sent counts what a machine's BMC and agent have been told to do.
func (r *rig) sent(name string) uint64 {
	counts := r.machines.Journal.Counts(name)
	return counts[journal.BMCWrite] + counts[journal.CommandAsked]
}

// try sends a request whose answer is one of those.
func (r *rig) try(t *testing.T, method string, s subject, path, body string, want ...int) int {
	t.Helper()
	text, status, err := r.do(method, "/v1/nodes/"+s.id+path, body)
	if err != nil || !slices.Contains(want, status) {
		t.Errorf("%s %s %s: %d %s %v, want one of %v", method, path, body, status, text, err, want)
	}
	return status
}

// happen has each event happen at places of each flow: at all of them, or at one that each event shifts.
func (r *rig) happen(t *testing.T, flows []flow, list []place, all bool) {
	t.Helper()
	type run struct {
		event event
		place place
	}
	var runs []run
	for k, f := range flows {
		var of []place
		for _, p := range list {
			if p.flow.name == f.name {
				of = append(of, p)
			}
		}
		if len(of) == 0 {
			continue // -run has chosen others
		}
		for i, e := range events {
			if all {
				for _, p := range of {
					runs = append(runs, run{e, p})
				}
				continue
			}
			runs = append(runs, run{e, of[(5*k+3*i)%len(of)]})
		}
	}
	var next atomic.Int64
	t.Run("events", func(t *testing.T) {
		for i := range lanes {
			t.Run(lane(i), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1) - 1; n < int64(len(runs)); n = next.Add(1) - 1 {
					t.Run(runs[n].event.name+" "+runs[n].place.String(), func(t *testing.T) {
						r.disturb(t, lane(i), fmt.Sprintf("disturbed-%d", n), runs[n].event, runs[n].place)
					})
				}
			})
		}
	})
	t.Logf("%d events at %d places", len(runs), len(list))
}

// ends waits until nothing is done for a node, and returns it.
func (r *rig) ends(t *testing.T, id string) (n node) {
	t.Helper()
	r.untilEvery(t, 250*time.Millisecond, 5*time.Minute, "node "+id+" rests", func() (bool, string) {
		n = node{}
		if err := r.get("/v1/nodes/"+id, &n); err != nil {
			return false, err.Error()
		}
		in, _ := states.Describe(states.State(n.ProvisionState))
		return n.Reservation == nil && n.TargetPowerState == nil && in.Kind != states.Busy && in.Kind != states.Waiting, n.String()
	})
	return n
}

// disturb runs a flow, and has the event happen while its owner stands at the place.
func (r *rig) disturb(t *testing.T, group, name string, e event, p place) {
	var s subject
	s.id, s.m = r.begins(t, group, p.flow)
	off, ups := !s.m.Machine.On(), r.machines.Journal.Counts(s.m.Name)[journal.AgentUp]
	at := p.point + "@" + p.detail
	c := r.start(t, name, group, at+"=print;"+at+"=sleep:"+stands.String(), p.flow.flags...)
	r.request(t, s.id, p.flow.ask)
	r.until(t, time.Minute, "the flow comes to "+at, func() (bool, string) {
		look := time.Now()
		text, err := os.ReadFile(filepath.Join(r.dir, name+".log"))
		if !bytes.Contains(text, []byte("failpoint "+at)) {
			s.came = look
		}
		return bytes.Contains(text, []byte("failpoint "+at)), fmt.Sprint(err)
	})
	may := e.happens(t, r, s)
	if may == gone {
		return
	}
	n := r.ends(t, s.id)
	text := ""
	if n.LastError != nil {
		text = *n.LastError
	}
	switch {
	case n.Maintenance && n.Fault == nil:
		t.Errorf("left in maintenance: %s", n)
	case p.flow.ended(n):
		p.flow.leaves(t, s.m)
	case may == aborted && strings.Contains(strings.ToLower(text), "abort"):
		p.flow.leavesNoBoot(t, s.m)
		if off && strings.HasSuffix(n.ProvisionState, "failed") && s.m.Machine.On() {
			t.Errorf("the abort left machine %s, which was off, on in %s", s.m.Name, n.ProvisionState)
		}
	case may == loud && text != "" && slices.Contains(p.flow.failures(), states.State(n.ProvisionState)):
		p.flow.leavesFailed(t, s.m, off, r.machines.Journal.Counts(s.m.Name)[journal.AgentUp] > ups, n)
	default:
		t.Errorf("%s at %s: it ended as %s", e.name, at, n)
	}
	c.cmd.Process.Kill()
	c.cmd.Wait()
	for _, f := range audit.Check(r.machines.Journal.After(0, 0)) {
		if f.Machine == s.m.Name {
			t.Error(f)
		}
	}
}
