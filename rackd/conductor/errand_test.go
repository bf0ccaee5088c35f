package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// errand puts work in the place of the node's that does what args ask before it goes on.
func (s *shelf) errand(id string, args work.Args) { s.errandIn(id, s.Work(id).Doc.State, args) }

// errandIn does so for a request that was accepted in a state, which may be over.
func (s *shelf) errandIn(id string, seen provision.State, args work.Args) {
	s.mu.Lock()
	n, old := *s.nodes[id], s.works[id].Doc
	n.Generation++
	s.nodes[id] = &n
	d := work.Document{ID: old.ID + "!", Node: id, Generation: n.Generation, Verb: old.Verb, Args: old.Args, Requested: time.Now(),
		Entry: seen, EntryTarget: old.Target, State: seen, Target: old.Target, Epoch: old.Epoch + 1}
	if old.Open() {
		d.Owner = old.Owner
	}
	d.Args.Continues, d.Args.PowerTarget, d.Args.Change = old.Root(), args.PowerTarget, args.Change
	d.Inherit(&old)
	d.Sign(testKey)
	s.rev++
	s.works[id] = &view.Work{Doc: d, Revision: s.rev}
	s.mu.Unlock()
	s.tell(id)
}

// errands are the ends of errands that were published, without those that were said again.
func (s *shelf) errands() (out []work.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == work.ErrandEnded && (len(out) == 0 || out[len(out)-1].Generation != e.Generation) {
			out = append(out, e)
		}
	}
	return out
}

// inHold brings the shelf's node of fake hardware to a hold.
func inHold(t *testing.T, s *shelf) {
	t.Helper()
	s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "hold"}, {Interface: "deploy", Step: "erase_devices"}}})
	time.Sleep(time.Second)
	if d := s.Work(nodeA).Doc; d.State != provision.CleanHold {
		t.Fatalf("state %q, %+v", d.State, d.Result)
	}
}

// A hold stays one while the machine is switched, adjusted and written to beside it, also
// when that fails; let go, the flow goes on.
func TestErrandsBesideAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, on := newShelf(), true
		hw := fakeHardware(t, s)
		s.nodes[nodeA].DriverInfo = map[string]any{"fake_start_console_fail": "stuck"}
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, hw)
		defer kill()
		inHold(t, s)
		for i, e := range []struct {
			args  work.Args
			power string
			fails string
		}{
			{work.Args{PowerTarget: string(driver.PowerOn)}, "power on", ""},
			{work.Args{PowerTarget: string(driver.Rebooting)}, "power on", ""},
			{work.Args{PowerTarget: string(driver.SoftPowerOff)}, "power off", ""},
			{work.Args{PowerTarget: "sideways"}, "power off", "unknown power target"},
			{work.Args{Change: &work.Change{BootMode: "bios"}}, "", ""},
			{work.Args{Change: &work.Change{Console: &on}}, "", "stuck"},
		} {
			s.errand(nodeA, e.args)
			time.Sleep(time.Minute)
			d, told := s.Work(nodeA).Doc, s.errands()
			if d.State != provision.CleanHold || !d.Open() || d.Checkpoint.Errand.Phase != work.Ended || len(told) != i+1 {
				t.Fatalf("%+v: state %q, %+v, told %d times", e.args, d.State, d.Result, len(told))
			}
			last := told[i]
			if last.Work != d.ID || last.State != provision.CleanHold || last.Power != e.power || (last.Error == "") != (e.fails == "") || !strings.Contains(last.Error, e.fails) || last.StepInfo == nil {
				t.Errorf("%+v: told as %+v", e.args, last)
			}
		}
		if seen := s.observed(); len(seen) == 0 || *seen[0].Hardware.BootMode != "bios" {
			t.Errorf("the change was seen as %+v", seen)
		}
		raw, err := json.Marshal(ask.BootDevice{Device: "disk"})
		if err != nil {
			t.Fatal(err)
		}
		if r := answersOf(c).Answer(t.Context(), ask.Request{Method: ask.SetBootDevice, Node: nodeA, Args: raw}); r.Error != nil {
			t.Errorf("boot device beside a hold: %v", r.Error)
		}
		s.goOn(nodeA, provision.CleanWait, false)
		time.Sleep(time.Minute)
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || d.State != provision.Manageable {
			t.Errorf("let go: state %q, %+v", d.State, d.Result)
		}
	})
}

// Something is asked of a machine that central believes to wait, while its flow has ended: it is
// done, nothing else is, and the node rests as the flow has left it. So it does when that was asked twice.
func TestErrandAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		step  func(m *machine, log *[]string) driver.Step
		state provision.State
		error string
		power driver.PowerState
	}{
		"it ended well": {func(m *machine, log *[]string) driver.Step { return did("write", log) }, provision.Active, "", driver.PowerOn},
		"it failed": {func(m *machine, log *[]string) driver.Step {
			s := did("write", log)
			s.Run = func(context.Context, *driver.Task) (driver.Outcome, error) {
				*log = append(*log, "write")
				return driver.Outcome{}, fmt.Errorf("no disk: %w", driver.ErrInvalid)
			}
			return s
		}, provision.DeployFail, "no disk", driver.PowerOn},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				m := &machine{power: driver.PowerOff}
				m.deploy = []driver.Step{c.step(m, &log)}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				time.Sleep(time.Minute)
				ended := s.Work(nodeA).Doc
				if ended.State != c.state || ended.Open() {
					t.Fatalf("state %q, %+v", ended.State, ended.Result)
				}
				for i := range 2 {
					s.errandIn(nodeA, provision.DeployWait, work.Args{PowerTarget: string(c.power)})
					time.Sleep(time.Minute)
					d, told := s.Work(nodeA).Doc, s.errands()
					if d.Open() || d.State != c.state || d.Target != ended.Target || d.Result.OK != (c.error == "") || !strings.Contains(d.Result.Error, c.error) {
						t.Fatalf("state %q, target %q, %+v", d.State, d.Target, d.Result)
					}
					if m.power != c.power || len(told) != i+1 || told[i].Error != "" || told[i].Power != string(c.power) {
						t.Errorf("the machine is %q; told %+v", m.power, told)
					}
				}
				if strings.Join(log, " ") != "write" {
					t.Errorf("steps %v", log)
				}
				if seen := s.states(); seen[len(seen)-1] != string(c.state) || slices.Contains(seen, string(provision.DeployWait)) {
					t.Errorf("central was told %v", seen)
				}
			})
		})
	}
}

// What a rackd that died had begun is done by its successor; what it had ended is not done
// again, but told of if it was not.
func TestErrandIsTakenOver(t *testing.T) {
	for name, c := range map[string]struct {
		at   work.Errand
		want []string
	}{
		"begun": {work.Errand{Phase: work.Begun}, []string{"power on"}},
		"ended": {work.Errand{Phase: work.Ended, Error: ", stuck"}, []string{"power off, stuck"}},
		"told":  {work.Errand{Phase: work.Ended, Told: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				hw := fakeHardware(t, s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, &machine{}, hw)
				inHold(t, s)
				kill()
				s.mu.Lock()
				d := s.works[nodeA].Doc
				d.Args.PowerTarget, d.Checkpoint.Errand = string(driver.PowerOn), c.at
				s.rev++
				s.works[nodeA] = &view.Work{Doc: d, Revision: s.rev}
				s.mu.Unlock()
				owner.Store("b")
				_, _, kill = conductorOn(t, s, "b", owner, &machine{}, hw)
				defer kill()
				time.Sleep(time.Minute)
				if d := s.Work(nodeA).Doc; d.State != provision.CleanHold || d.Owner != "b" || d.Checkpoint.Errand.Phase != work.Ended || !d.Checkpoint.Errand.Told {
					t.Fatalf("state %q of %q, errand %+v, %+v", d.State, d.Owner, d.Checkpoint.Errand, d.Result)
				}
				var told []string
				for _, e := range s.errands() {
					told = append(told, e.Power+e.Error)
				}
				if !slices.Equal(told, c.want) {
					t.Errorf("told %q, want %q", told, c.want)
				}
			})
		})
	}
}
