package places

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// moods are what has become of the requests to many bad BMCs.
type moods [vbmc.Refused + 1]atomic.Int64

// moody says what becomes of a request to one of them. One in ten comes to grief: its answer is late, lost, halved or given twice, it is
// dropped, or the BMC starts again in place of the answer. Each BMC refuses one login after some, again and again.
func (m *moods) moody(seed uint64) func(*http.Request) vbmc.Spoilt {
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(seed, 20))
	most := 1 + int(seed%4)
	logins := most * int(seed%2) // half of them refuse the first
	fate := func(r *http.Request) vbmc.Spoilt {
		if strings.HasSuffix(r.URL.Path, "/Sessions") && r.Method == http.MethodPost {
			if logins++; logins > most {
				logins = 0
				return vbmc.Refused
			}
		}
		if draw.IntN(10) > 0 {
			return vbmc.Sound
		}
		return vbmc.Late + vbmc.Spoilt(draw.IntN(int(vbmc.Refused-vbmc.Late)))
	}
	return func(r *http.Request) vbmc.Spoilt {
		mu.Lock()
		defer mu.Unlock()
		how := fate(r)
		m[how].Add(1)
		return how
	}
}

// asked is a node, and what it was asked for.
type asked struct {
	id       string
	machine  string // its name in the journal
	requests int    // of the power state at hand
}

// lightFleet runs machines that have a BMC and no firmware, until the test ends.
func lightFleet(t *testing.T, name string, size int, network string) *fleet.Fleet {
	t.Helper()
	c := fleet.Default
	c.Name, c.Machines, c.Network, c.Light, c.BMCPort, c.AgentPort, c.Log = name, size, netip.MustParsePrefix(network), true, 8743, 9798, slog.New(slog.DiscardHandler)
	f, err := fleet.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	up, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- f.Run(ctx, func() { close(up) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-up:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return f
}

// TestBadBMCs switches a thousand machines whose BMCs are bad, twenty without IRONYARD_CHAOS, while a rackd of two dies. Each request ends.
// What was done of it was done once: no machine was switched or reset more often than it was asked for, and none less often
// than was answered for.
func TestBadBMCs(t *testing.T) {
	r := newRig(t)
	f := lightFleet(t, "bad", manyBMCs(20), "127.86.0.0/16")
	flags := []string{"--drivers", "redfish", "--bmc-networks", "127.0.0.0/8", "--power-recovery", "5s"}
	r.start(t, spareName, spare, "", flags...)
	victim := r.start(t, "bad-1", lane(0), "", flags...)
	r.start(t, "bad-2", lane(0), "", flags...)
	all := r.enrolBad(t, f)
	var came moods
	came.upset(f)
	r.switchedOnce(t, all, f.Journal, victim)
	came.all(t)
	said, err := os.ReadFile(victim.log)
	if err != nil || strings.Contains(string(said), "X-Auth-Token") {
		t.Errorf("the log of a rackd holds the token of a session: %v", err)
	}
}

// manyBMCs is how many bad BMCs there are: a few, or with IRONYARD_CHAOS a thousand or as many as IRONYARD_BMCS says.
func manyBMCs(few int) int {
	if os.Getenv("IRONYARD_CHAOS") == "" {
		return few
	}
	if n, err := strconv.Atoi(os.Getenv("IRONYARD_BMCS")); err == nil {
		return n
	}
	return 1000
}

// enrolBad enrols a fleet's machines in the first lane.
func (r *rig) enrolBad(t *testing.T, f *fleet.Fleet) []*asked {
	t.Helper()
	o, err := operator.New(r.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*asked, len(f.Members))
	inParallel(len(all), func(i int) {
		e := f.Enrolment(f.Members[i])
		e.Group, e.MACs, e.Interfaces = lane(0), nil, nil
		id, err := o.Enrol(t.Context(), e)
		if err != nil {
			t.Error(err)
		}
		all[i] = &asked{id: id, machine: f.Members[i].Name}
	})
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// upset makes the BMCs of a fleet bad.
func (m *moods) upset(f *fleet.Fleet) {
	for i, member := range f.Members {
		member.BMC.Faults.Away(starting)
		if i%8 == 0 {
			member.BMC.Faults.Away(newFirmware)
		}
		member.BMC.Faults.Spoil(m.moody(uint64(i)))
	}
}

// all checks that requests had each fate, and tells how many.
func (m *moods) all(t *testing.T) {
	t.Helper()
	t.Logf("of the requests to the BMCs %d were taken well, %d late, %d lost, %d halved, %d twice, %d dropped; BMCs started again after %d, and refused %d logins",
		m[vbmc.Sound].Load(), m[vbmc.Late].Load(), m[vbmc.Lost].Load(), m[vbmc.Half].Load(), m[vbmc.Twice].Load(), m[vbmc.Dropped].Load(), m[vbmc.Reset].Load(), m[vbmc.Refused].Load())
	for how := range m {
		if m[how].Load() == 0 {
			t.Errorf("no request had fate %d: the mix lacks it", how)
		}
	}
}

// switchedOnce switches machines on, restarts them and switches them off. A rackd dies amid the restarts.
func (r *rig) switchedOnce(t *testing.T, all []*asked, j *journal.Journal, victim *conductor) {
	t.Helper()
	const on, off = journal.PowerOn, journal.PowerOff
	for n, step := range []struct {
		target, state string
		once          []journal.Kind // what is done of it
	}{{"power on", "power on", []journal.Kind{on}}, {"rebooting", "power on", []journal.Kind{off, on}}, {"power off", "power off", []journal.Kind{off}}} {
		before := map[string]map[journal.Kind]uint64{}
		for _, a := range all {
			before[a.id], a.requests = j.Counts(a.machine), 0
		}
		halfway := func() {}
		if n == 1 {
			halfway = func() { _ = victim.cmd.Process.Kill() }
		}
		answered := r.switchAll(t, all, step.target, step.state, halfway)
		if n == 1 && !victim.killed() {
			t.Error("the rackd did not die amid the requests")
		}
		for _, a := range all {
			now := j.Counts(a.machine)
			for _, kind := range []journal.Kind{on, off, journal.Reset} {
				times, least, most := int(now[kind]-before[a.id][kind]), 0, 0
				switch {
				case !slices.Contains(step.once, kind):
				case n == 1: // what the answer was lost of, and was asked for again, is another reboot
					least, most = answered[a.id], a.requests
				default:
					least, most = 1, 1
				}
				if times < least || times > most {
					t.Errorf("%s of %s, asked for %d times and answered for %d times: %s %d times, want %d to %d", step.target, a.machine, a.requests, answered[a.id], kind, times, least, most)
				}
			}
		}
	}
}

// inParallel calls do for each number, eight at once.
func inParallel(n int, do func(i int)) {
	next := make(chan int)
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	g.Wait()
}

// powerOf is what the API says of a node's power.
type powerOf struct {
	UUID   string `json:"uuid"`
	Power  string `json:"power_state"`
	Target string `json:"target_power_state"`
	Error  string `json:"last_error"`
}

// switchAll asks all nodes for a power state until each has a request that succeeded. A request that fails is made again, as an
// operator does. halfway is called once, when half of the first requests are made. answered counts the successes.
func (r *rig) switchAll(t *testing.T, all []*asked, target, state string, halfway func()) (answered map[string]int) {
	t.Helper()
	answered = map[string]int{}
	ask := all
	var last string
	var made atomic.Int64
	for round := range 12 {
		inParallel(len(ask), func(i int) {
			for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
				text, status, err := r.do("PUT", "/v1/nodes/"+ask[i].id+"/states/power", fmt.Sprintf(`{"target":%q}`, target))
				if err == nil && status == http.StatusAccepted {
					ask[i].requests++
					if made.Add(1) == int64(len(all)/2) {
						halfway()
					}
					return
				}
				if time.Now().After(end) {
					t.Errorf("%s is not accepted: %d %s %v", target, status, text, err)
					return
				}
			}
		})
		now := map[string]powerOf{}
		r.untilEvery(t, 300*time.Millisecond, 3*time.Minute+time.Duration(len(all))*time.Second, "each request for "+target+" ends", func() (bool, string) {
			var list struct{ Nodes []powerOf }
			if err := r.get("/v1/nodes?limit=1000&fields=uuid,power_state,target_power_state,last_error", &list); err != nil {
				return false, err.Error()
			}
			open := 0
			for _, n := range list.Nodes {
				now[n.UUID] = n
				if n.Target != "" {
					open++
				}
			}
			return open == 0 && len(list.Nodes) == len(all), fmt.Sprintf("%d of %d are open", open, len(list.Nodes))
		})
		var again []*asked
		for _, a := range ask {
			if n := now[a.id]; n.Power == state && n.Error == "" {
				answered[a.id]++
			} else {
				again = append(again, a)
				last = n.Power + ": " + n.Error
			}
		}
		if ask = again; len(ask) == 0 {
			t.Logf("%s: %d machines, %d rounds", target, len(all), round+1)
			return answered
		}
		time.Sleep(time.Second) // refused credentials rest as long
	}
	text, _ := json.Marshal(last)
	t.Fatalf("%d machines do not come to %s; the last said %s", len(ask), target, text)
	return nil
}
