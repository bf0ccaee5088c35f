package conductor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// fails is a step that fails, after what it does.
func fails(kind, name string, does func(ctx context.Context, t *driver.Task) error) driver.Step {
	return driver.Step{Interface: kind, Name: name, Priority: 100, Kind: driver.Repeatable, NoRamdisk: true,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			return driver.Outcome{}, errors.Join(does(ctx, t), errors.New("it failed"))
		}}
}

func touches(ctx context.Context, t *driver.Task) error {
	return t.Hardware.Management().SetBootDevice(ctx, t.Fence, t.Node, driver.BootPXE, false)
}

func nothing(context.Context, *driver.Task) error { return nil }

// A rebuild that fails before anything was sent to the machine leaves the instance running and
// the node active. One that has sent something has failed, and leaves the power alone as long
// as it has not booted the machine.
func TestUntouchedRebuildEndsInActive(t *testing.T) {
	typo := work.Args{From: provision.Active, Steps: []work.Step{{Interface: "deploy", Step: "typo", Priority: 50}}}
	from := func(s provision.State) work.Args { return work.Args{From: s} }
	for name, c := range map[string]struct {
		step    driver.Step
		invalid error
		args    work.Args
		want    provision.State
		writes  int
	}{
		"a step that nobody has":         {step: fails("deploy", "only", touches), args: typo, want: provision.Active},
		"fields that are refused":        {step: fails("deploy", "only", touches), invalid: driver.ErrInvalid, args: from(provision.Active), want: provision.Active},
		"an image that is not there":     {step: fails("deploy", "fetch_image", nothing), args: from(provision.Active), want: provision.Active},
		"of a node without an instance":  {step: fails("deploy", "fetch_image", nothing), args: from(provision.DeployFail), want: provision.DeployFail},
		"asked for by an older central":  {step: fails("deploy", "fetch_image", nothing), args: from(""), want: provision.DeployFail},
		"a boot device that was written": {step: fails("deploy", "only", touches), args: from(provision.Active), want: provision.DeployFail, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOn, deploy: []driver.Step{c.step}, invalid: c.invalid}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Rebuild, provision.Deploying, c.args)
				time.Sleep(time.Minute)
				d := s.Work(nodeA).Doc
				if d.State != c.want || d.Target != provision.TargetOf(c.want, provision.EventFail, d.Target) || d.Result == nil || d.Result.OK || d.Result.Error == "" {
					t.Errorf("ended in %q bound for %q: %+v", d.State, d.Target, d.Result)
				}
				if m.power != driver.PowerOn || len(m.writes) != c.writes {
					t.Errorf("the machine is %q after %v", m.power, m.writes)
				}
			})
		})
	}
}

// A rebuild that holds or waits before it has sent anything has touched nothing: where it ends then, the node is active.
func TestAHoldTouchesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		first  string
		let    bool // the hold is let go, and the step after it fails
		dies   bool // the rackd, in the wait
		touch  func(context.Context, *driver.Task) error
		want   provision.State
		writes int
	}{
		"a hold, aborted": {first: "hold", touch: touches, want: provision.Active},
		"a hold, let go, and the image cannot be fetched": {first: "hold", let: true, touch: nothing, want: provision.Active},
		"a hold, let go, and what failed has written":     {first: "hold", let: true, touch: touches, want: provision.DeployFail, writes: 1},
		"a wait, aborted": {first: "wait", touch: touches, want: provision.Active},
		"a wait, taken over, and over: the image is not there":  {first: "wait", let: true, dies: true, touch: nothing, want: provision.Active},
		"a wait, taken over, and aborted":                       {first: "wait", dies: true, touch: touches, want: provision.Active},
		"a wait, taken over, and over: what failed has written": {first: "wait", let: true, dies: true, touch: touches, want: provision.DeployFail, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				after := fails("deploy", "fetch_image", c.touch)
				after.Apart = true
				m := &machine{power: driver.PowerOn, deploy: []driver.Step{after}}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				first := work.Step{Interface: "power", Step: c.first, Priority: 200}
				if c.first == "wait" {
					first.Args = map[string]any{"seconds": 600.0}
				}
				s.request(nodeA, work.Rebuild, provision.Deploying, work.Args{From: provision.Active, Steps: []work.Step{first}})
				time.Sleep(10 * time.Second)
				if c.dies {
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
					time.Sleep(10 * time.Second)
				}
				defer func() { kill() }()
				synctest.Wait()
				if d := s.Work(nodeA).Doc; !d.Open() || d.Checkpoint.Step != "power."+c.first {
					t.Fatalf("at %q in %q, %+v", d.Checkpoint.Step, d.State, d.Result)
				}
				switch {
				case !c.let:
					s.abort(nodeA, provision.DeployFail)
				case c.first == "hold":
					s.goOn(nodeA, provision.DeployWait, false)
				}
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; d.Open() || d.State != c.want || m.power != driver.PowerOn || len(m.writes) != c.writes {
					t.Errorf("in %q, the machine is %q after %q; %+v", d.State, m.power, m.writes, d.Result)
				}
			})
		})
	}
}

// Whether a machine was touched outlives the rackd that did so.
func TestTouchOutlivesItsRackd(t *testing.T) {
	for name, c := range map[string]struct {
		apart bool
		want  provision.State
	}{"a step that sends nothing": {true, provision.Active}, "any other": {false, provision.DeployFail}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				step := fails("deploy", "fetch_image", func(ctx context.Context, _ *driver.Task) error { return driver.Pause(ctx, time.Minute) })
				step.Apart = c.apart
				m := &machine{power: driver.PowerOn, deploy: []driver.Step{step}}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Rebuild, provision.Deploying, work.Args{From: provision.Active})
				time.Sleep(30 * time.Second)
				kill()
				owner.Store("b")
				_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				defer kill()
				time.Sleep(5 * time.Minute)
				if d := s.Work(nodeA).Doc; d.Open() || d.State != c.want || m.power != driver.PowerOn {
					t.Errorf("ended in %q, the machine is %q", d.State, m.power)
				}
			})
		})
	}
}

// A machine that the flow has not booted keeps its power, whatever fails.
func TestPowerOfAMachineThatWasNotBooted(t *testing.T) {
	broken := fails("deploy", "broken", touches)
	for name, c := range map[string]struct {
		verb  work.Verb
		entry provision.State
		steps []work.Step
		want  provision.State
	}{
		"an inspection that cannot begin": {work.Inspect, provision.Inspecting, nil, provision.InspectFail},
		"a cleaning out of band":          {work.Clean, provision.Cleaning, []work.Step{{Interface: "deploy", Step: "broken"}}, provision.CleanFail},
		"a service out of band":           {work.Service, provision.Servicing, []work.Step{{Interface: "deploy", Step: "broken"}}, provision.ServiceFail},
		"a cleaning with a wrong step":    {work.Clean, provision.Cleaning, []work.Step{{Interface: "deploy", Step: "typo"}}, provision.CleanFail},
		"a deploy":                        {work.Deploy, provision.Deploying, nil, provision.DeployFail},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOn, clean: []driver.Step{broken}, deploy: []driver.Step{broken}}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, c.verb, c.entry, work.Args{Steps: c.steps})
				time.Sleep(time.Minute)
				if d := s.Work(nodeA).Doc; d.Open() || d.State != c.want || m.power != driver.PowerOn {
					t.Errorf("ended in %q, the machine is %q, written: %v, %+v", d.State, m.power, m.writes, d.Result)
				}
			})
		})
	}
}

// A rackd whose lease ends between the failure of a step and what it still does to the machine does not end the work: its next
// owner does both. Else a machine with half an image would run on, and so would the ramdisk of a service that was aborted.
func TestAFailureThatIsFencedIsLeftToTheNextOwner(t *testing.T) {
	for _, verb := range []work.Verb{work.Deploy, work.Service} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: driver.PowerOn}
			var ms *members
			var c *Conductor
			lapse := func() { // of the bus; then another lease begins
				if ms.lease.Load() > 0 {
					return
				}
				ms.paused.Store(true)
				time.AfterFunc(3*time.Second, func() {
					ms.lease.Add(1)
					ms.paused.Store(false)
					c.RingChanged()
				})
			}
			step := fails("deploy", "only", func(ctx context.Context, t *driver.Task) error {
				t.Facts[driver.FactBoot], t.Facts[driver.FactBooted] = driver.BootRamdisk, "yes"
				if err := t.Record.SaveHandle(ctx, "booted"); err != nil {
					return err
				}
				lapse()
				if verb == work.Service {
					return flow.ErrAborted
				}
				return nil
			})
			step.Kind = driver.Reattachable
			m.deploy, m.clean = []driver.Step{step}, []driver.Step{step}
			s := newShelf()
			oneNode(s)
			var log []string
			var kill func()
			c, ms, kill = conductorOn(t, s, "a", owned("a"), m, withRamdisk(t, m, &log))
			defer kill()
			if verb == work.Service {
				s.request(nodeA, verb, provision.Servicing, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "only"}}})
			} else {
				s.request(nodeA, verb, provision.Deploying, work.Args{})
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			d := s.Work(nodeA).Doc
			want := map[work.Verb]provision.State{work.Deploy: provision.DeployFail, work.Service: provision.Active}[verb]
			if d.Open() || d.State != want || m.power != driver.PowerOff {
				t.Errorf("%s: in %q, %+v; the machine is %q after %v", verb, d.State, d.Result, m.power, m.writes)
			}
		})
	}
}
