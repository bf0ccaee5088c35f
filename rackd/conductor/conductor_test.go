package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

func did(name string, log *[]string) driver.Step {
	return driver.Step{Interface: "deploy", Name: name, Priority: 50, Kind: driver.Repeatable,
		Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
			*log = append(*log, name)
			return driver.Done(), nil
		}}
}

func TestDeployRunsStepsInOrderOfPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		late, off := did("late", &log), did("off", &log)
		late.Priority, off.Priority = 10, 0
		m := &machine{power: driver.PowerOff, deploy: []driver.Step{late, off, did("first", &log), did("second", &log)}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if got := strings.Join(log, " "); got != "first second late" {
			t.Errorf("steps ran: %s", got)
		}
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || d.State != provision.Active || d.Target != "" {
			t.Errorf("work ended as %+v in state %q, target %q", d.Result, d.State, d.Target)
		}
		if got := s.states(); !slices.Equal(got, []string{"deploying", "active"}) {
			t.Errorf("states reported: %v", got)
		}
	})
}

// The end of work is reported once by who has run it, and each minute again until
// central clears it away.
func TestAnEndIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff, deploy: []driver.Step{did("only", &log)}}, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(reportAgain - time.Second)
		again := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.again) }
		if n := again(); n != 0 {
			t.Errorf("reported %d times more within a minute", n)
		}
		time.Sleep(resync + time.Second)
		if n := again(); n != 1 {
			t.Errorf("after a minute: reported %d times more, want once", n)
		}
	})
}

// waitForAgent is the shape of a real first step: power on, then wait for a call.
func waitForAgent(m *machine) driver.Step {
	return driver.Step{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Abortable: true,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if t.Record.Handle() == nil {
				t.Facts[driver.FactBoot], t.Facts[driver.FactBooted] = driver.BootRamdisk, "yes"
				if err := t.Record.SaveHandle(ctx, "booting"); err != nil {
					return driver.Done(), err
				}
				if err := t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOn); err != nil {
					return driver.Done(), err
				}
			}
			if t.Agent.Booted(t.Entered) {
				return driver.Done(), nil
			}
			return driver.Wait(0), nil
		}}
}

func beat(t *testing.T, c *Conductor) {
	t.Helper()
	if err := tryBeat(c); err != nil {
		t.Fatal(err)
	}
}

// lookupOf is what the agent asks of the machine that was given its boot script here.
func lookupOf(c *Conductor) ask.Lookup {
	o, _ := c.BootByMAC("52:54:00:00:00:01")
	return ask.Lookup{Addresses: []string{"52:54:00:00:00:01"}, Caller: ask.Caller{BootID: o.BootID}}
}

// tryBeat looks the agent up, unless one has called, and lets it give a sign of life.
func tryBeat(c *Conductor) error {
	time.Sleep(time.Second) // of the bubble's clock: the agent boots
	hb := agentapi.Heartbeat{CallbackURL: "https://10.0.0.1:9999", AgentVerifyCA: "PEM", BootID: "1"}
	if r := c.runner(nodeA); r != nil && r.Agent() != nil && r.Agent().URL != "" {
		hb.AgentToken = testKey.Token(nodeA, r.Root(), c.bootOf(nodeA).Number)
	} else if reply, err := c.LookupAgent(lookupOf(c)); err != nil {
		return err
	} else {
		hb.AgentToken = reply.Config.AgentToken
	}
	return c.Heartbeat(nodeA, ask.Heartbeat{Heartbeat: hb})
}

func TestWaitsForTheAgentAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		if _, err := c.LookupAgent(lookupOf(c)); !errors.Is(err, refusal.ErrNoNode) {
			t.Errorf("lookup on an available node: %v, want refusal.ErrNoNode", err)
		}
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.DeployWait {
			t.Fatalf("state %q, want wait call-back", d.State)
		}
		if o, ok := c.BootByMAC("52:54:00:00:00:01"); !ok || !o.Order.Boots() {
			t.Errorf("boot order %+v, want the ramdisk", o)
		}
		if e := s.events[len(s.events)-1]; e.State != provision.DeployWait || e.Power != string(driver.PowerOn) {
			t.Errorf("the wait is told as %+v, want with the power on", e)
		}
		if err := c.Heartbeat(nodeA, ask.Heartbeat{Heartbeat: agentapi.Heartbeat{CallbackURL: "https://x", AgentVerifyCA: "c", AgentToken: "guess"}}); !errors.Is(err, refusal.ErrBadToken) {
			t.Errorf("heartbeat with a wrong token: %v", err)
		}
		time.Sleep(10 * time.Second)
		beat(t, c)
		synctest.Wait()
		if got := s.states(); !slices.Equal(got, []string{"deploying", "wait call-back", "deploying", "active"}) {
			t.Errorf("states reported: %v", got)
		}
	})
}

// Where a flow waits for an agent, what an installer says of itself is refused, and is no call of an agent. A stranger
// learns nothing by it.
func TestInstallersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		token := testKey.Token(nodeA, c.runner(nodeA).Root(), c.bootOf(nodeA).Number)
		for _, hb := range []agentapi.Heartbeat{{Status: "start"}, {Status: "end"}, {Status: "error", StatusMessage: "no disk"}, {StatusMessage: "hello"},
			{Status: "end", CallbackURL: "https://10.0.0.1:9999", AgentVerifyCA: "PEM", BootID: "1"}} {
			hb.AgentToken = "guess"
			if err := c.Heartbeat(nodeA, ask.Heartbeat{Heartbeat: hb}); !errors.Is(err, refusal.ErrBadToken) {
				t.Errorf("%+v of a stranger: %v", hb, err)
			}
			hb.AgentToken = token
			err := c.Heartbeat(nodeA, ask.Heartbeat{Heartbeat: hb})
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "anaconda") || !strings.Contains(err.Error(), hb.StatusMessage) {
				t.Errorf("%+v: %v", hb, err)
			}
		}
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.DeployWait {
			t.Errorf("state %q", d.State)
		}
		for _, e := range s.events {
			if e.Phase == "installer" {
				t.Errorf("history: %+v", e)
			}
		}
		beat(t, c)
		synctest.Wait()
		if got := s.states(); !slices.Equal(got, []string{"deploying", "wait call-back", "deploying", "active"}) {
			t.Errorf("states reported: %v", got)
		}
	})
}

// The answer to a lookup may be lost, so the token is told again; until an agent has shown it.
func TestTokenIsGivenUntilItIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		first, err1 := c.LookupAgent(lookupOf(c))
		second, err2 := c.LookupAgent(lookupOf(c)) // the first answer was lost
		if err1 != nil || err2 != nil || first.Config.AgentToken == agentapi.Masked || second.Config.AgentToken != first.Config.AgentToken {
			t.Errorf("lookups: %v %v, tokens %q and %q", err1, err2, first.Config.AgentToken, second.Config.AgentToken)
		}
		hb := agentapi.Heartbeat{CallbackURL: "https://10.0.0.1:9999", AgentVerifyCA: "PEM", AgentToken: first.Config.AgentToken, BootID: "1"}
		if err := c.Heartbeat(nodeA, ask.Heartbeat{Heartbeat: hb}); err != nil {
			t.Fatal(err)
		}
		if third, err := c.LookupAgent(lookupOf(c)); !errors.Is(err, refusal.ErrInDoubt) || third.Config.AgentToken != "" {
			t.Errorf("the token is given away after an agent has shown it: %v", err)
		}
	})
}

func TestDeadlineEndsTheWaitAndPowersOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) {
			c.Deadlines = map[provision.State]time.Duration{provision.DeployWait: time.Minute}
		})
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; !d.Open() {
			t.Fatalf("ended before the deadline: %+v", d.Result)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		d := s.Work(nodeA).Doc
		if d.Open() || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "did not call within 1m0s") {
			t.Errorf("state %q, result %+v", d.State, d.Result)
		}
		if m.power != driver.PowerOff {
			t.Error("the machine is still on")
		}
	})
}

// The owner dies while the agent is awaited; the next one goes on from the
// checkpoint: the machine is not powered on a second time.
func TestTakeoverGoesOnFromTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, killA := conductorOn(t, s, "a", owner, m, nil)
		b, _, killB := conductorOn(t, s, "b", owner, m, nil)
		defer killB()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		killA()
		owner.Store("b")
		b.RingChanged()
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Owner != "b" || d.Epoch != 2 || d.State != provision.DeployWait {
			t.Fatalf("owner %s, epoch %d, state %s", d.Owner, d.Epoch, d.State)
		}
		beat(t, b)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active {
			t.Errorf("state %q, result %+v", d.State, d.Result)
		}
		if n := len(m.writes); n != 1 {
			t.Errorf("%d writes to the BMC, want 1: %v", n, m.writes)
		}
	})
}

// An owner that was stopped and wakes up after its lease writes nothing.
func TestZombieWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m), {Interface: "deploy", Name: "boot", Priority: 1, Kind: driver.Repeatable,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				return driver.Done(), t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.Rebooting)
			}}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		a, held, kill := conductorOn(t, s, "a", owner, m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		held.held.Store(false)
		// Who is refused has come when the zombie had already noticed, or waits for a checkpoint when it notices.
		if err := tryBeat(a); err != nil && !errors.Is(err, refusal.ErrNotOwner) && !errors.Is(err, refusal.ErrNotKept) {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(m.writes); n != 1 {
			t.Errorf("the zombie wrote to the BMC: %v", m.writes)
		}
		d := s.Work(nodeA).Doc
		if !d.Open() || d.State != provision.DeployWait {
			t.Errorf("the zombie moved the work to %q", d.State)
		}
	})
}

func TestStepThatIsNeitherFailsOnTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{}, 2)
		m := &machine{power: driver.PowerOn, deploy: []driver.Step{{Interface: "bios", Name: "flash", Priority: 5, Kind: driver.Neither,
			Run: func(ctx context.Context, _ *driver.Task) (driver.Outcome, error) {
				entered <- struct{}{}
				<-ctx.Done()
				return driver.Done(), ctx.Err()
			}}}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, killA := conductorOn(t, s, "a", owner, m, nil)
		b, _, killB := conductorOn(t, s, "b", owner, m, nil)
		defer killB()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		<-entered
		killA()
		owner.Store("b")
		b.RingChanged()
		synctest.Wait()
		d := s.Work(nodeA).Doc
		if d.Open() || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "bios.flash") {
			t.Errorf("state %q, result %+v", d.State, d.Result)
		}
		if len(entered) != 0 {
			t.Error("the step ran twice")
		}
	})
}

func TestUnreachableIsTriedAgainOthersAreNot(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{{driver.ErrUnreachable, 3}, {driver.ErrUnknown, 3}, {driver.ErrDenied, 1}, {errors.New("no"), 1}} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			m := &machine{deploy: []driver.Step{{Interface: "power", Name: "x", Priority: 5, Kind: driver.Repeatable, Retries: 2, Pause: time.Second,
				Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
					runs++
					return driver.Done(), fmt.Errorf("BMC 10.0.0.9: %w", c.err)
				}}}}
			s := newShelf()
			oneNode(s)
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if d := s.Work(nodeA).Doc; runs != c.want || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "10.0.0.9") {
				t.Errorf("%v: %d runs, state %q, result %+v", c.err, runs, d.State, d.Result)
			}
		})
	}
}

func TestUndeployClearsTheInstanceAndCleans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOn, teardown: []driver.Step{did("tear_down", &log)}, clean: []driver.Step{did("erase", &log)}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Delete, provision.Deleting, work.Args{})
		synctest.Wait()
		if got := s.states(); !slices.Equal(got, []string{"deleting", "cleaning", "available"}) || strings.Join(log, " ") != "tear_down erase" {
			t.Errorf("states %v, steps %v", got, log)
		}
		cleared := false
		for _, e := range s.events {
			cleared = cleared || e.State == provision.Cleaning && e.ClearInstance
		}
		if !cleared {
			t.Error("nobody was told that the instance is gone")
		}
	})
}

func TestFailedCleanAsksForMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOn, clean: []driver.Step{{Interface: "deploy", Name: "erase", Priority: 10, Kind: driver.Repeatable,
			Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
				return driver.Done(), errors.New("disk is read-only")
			}}}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Provide, provision.Cleaning, work.Args{})
		synctest.Wait()
		d := s.Work(nodeA).Doc
		if d.State != provision.CleanFail || !d.Result.SetMaintenance || d.Result.Fault != "clean failure" || d.Target != provision.Available {
			t.Errorf("state %q, target %q, result %+v", d.State, d.Target, d.Result)
		}
	})
}

// A list with a step that nobody has leaves the machine as it was. Only a service whose steps no ramdisk
// is asked for is Ironic's to begin all the same.
func TestUnknownStepsAskForMaintenanceInServiceOnly(t *testing.T) {
	for verb, want := range map[work.Verb]work.Result{
		work.Clean:   {},
		work.Service: {SetMaintenance: true, Fault: "service failure"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf()
			oneNode(s)
			_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOn}, nil)
			defer kill()
			from := map[work.Verb]provision.State{work.Clean: provision.Cleaning, work.Service: provision.Servicing}[verb]
			s.request(nodeA, verb, from, work.Args{Steps: []work.Step{{Interface: "bios", Step: "nobodys"}}})
			synctest.Wait()
			r := s.Work(nodeA).Doc.Result
			if r == nil || !strings.Contains(r.Error, "bios.nobodys") || r.SetMaintenance != want.SetMaintenance || r.Fault != want.Fault {
				t.Errorf("%s: %+v", verb, r)
			}
		})
	}
}

func TestNewerRequestTakesThePlaceOfWaitingWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		id := s.request(nodeA, work.Delete, provision.Deleting, work.Args{})
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.ID != id || d.Open() || d.State != provision.Available {
			t.Errorf("work %s in state %q, result %+v", d.ID, d.State, d.Result)
		}
	})
}

func TestPowerWork(t *testing.T) {
	for _, c := range []struct {
		target string
		from   driver.PowerState
		want   []string
		end    driver.PowerState
	}{
		{"power on", driver.PowerOff, []string{"power power on epoch 1"}, driver.PowerOn},
		{"power on", driver.PowerOn, nil, driver.PowerOn},
		{"rebooting", driver.PowerOn, []string{"power power off epoch 1", "power power on epoch 1"}, driver.PowerOn},
		{"soft power off", driver.PowerOn, []string{"power soft power off epoch 1"}, driver.PowerOff},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: c.from}
			s := newShelf()
			oneNode(s)
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			s.request(nodeA, work.Power, provision.Available, work.Args{PowerTarget: c.target})
			time.Sleep(5 * time.Second)
			synctest.Wait()
			d := s.Work(nodeA).Doc
			if !slices.Equal(m.writes, c.want) || m.power != c.end || d.Open() || !d.Result.OK || d.State != provision.Available {
				t.Errorf("%s from %s: writes %v, power %s, state %q, result %+v", c.target, c.from, m.writes, m.power, d.State, d.Result)
			}
		})
	}
}

// Requests for power of machines that nothing switches off: what can be done is done each time it is asked for, all else is refused,
// and a power state that nothing tells is not told.
func TestPowerOfWhatNothingSwitchesOff(t *testing.T) {
	wakes, alone := []driver.PowerState{driver.PowerOn, driver.Rebooting}, []driver.PowerState{driver.Rebooting, driver.SoftReboot}
	for _, c := range []struct {
		target  string
		targets []driver.PowerState
		from    driver.PowerState
		want    []string // nil: refused
	}{
		{"power on", wakes, "", []string{"power power on epoch 1"}},
		{"power on", wakes, driver.PowerOn, []string{"power power on epoch 1"}},
		{"rebooting", wakes, driver.PowerOn, []string{"power rebooting epoch 1"}},
		{"power off", wakes, driver.PowerOn, nil},
		{"soft power off", wakes, driver.PowerOn, nil},
		{"power on", alone, "", nil},
		{"power off", alone, "", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: c.from, targets: c.targets}
			s := newShelf()
			oneNode(s)
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			s.request(nodeA, work.Power, provision.Available, work.Args{PowerTarget: c.target})
			time.Sleep(90 * time.Second)
			synctest.Wait()
			d := s.Work(nodeA).Doc
			if !slices.Equal(m.writes, c.want) || d.Open() || d.Result.OK != (c.want != nil) || d.State != provision.Available {
				t.Errorf("%s with %v from %q: writes %v, state %q, result %+v", c.target, c.targets, c.from, m.writes, d.State, d.Result)
			}
			if c.want == nil && !strings.Contains(d.Result.Error, "cannot be switched") {
				t.Errorf("%s with %v: %s", c.target, c.targets, d.Result.Error)
			}
		})
	}
}

// The bus is away for a while: the work goes on when it is back.
func TestBusOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		s.mu.Lock()
		s.cut = true
		s.mu.Unlock()
		if err := tryBeat(c); !errors.Is(err, refusal.ErrNotKept) {
			t.Errorf("a call that no checkpoint has: %v", err)
		}
		time.Sleep(30 * time.Second)
		s.mu.Lock()
		s.cut = false
		s.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := s.states(); !slices.Equal(got, []string{"deploying", "wait call-back", "deploying", "active"}) {
			t.Errorf("states reported: %v", got)
		}
	})
}

// An agent whose call was taken in is silent for up to a minute. A rackd that dies right after it has told its successor where the
// agent is, or the flow would stand still so long.
func TestACallThatIsTakenInIsWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m), {Interface: "deploy", Name: "idle", Kind: driver.Reattachable, Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
			return driver.Wait(time.Hour), nil
		}}}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		beat(t, c)
		if a := s.Work(nodeA).Doc.Checkpoint.Agent; a == nil || a.URL != "https://10.0.0.1:9999" {
			t.Errorf("the checkpoint has the agent %+v", a)
		}
	})
}

func TestInvalidNodeFailsWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff, invalid: fmt.Errorf("instance_info has no image_source: %w", driver.ErrInvalid)}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "no image_source") {
			t.Errorf("state %q, result %+v", d.State, d.Result)
		}
	})
}

func TestAbortPowersOffAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		s.abort(nodeA, provision.DeployFail)
		synctest.Wait()
		d := s.Work(nodeA).Doc
		if d.Open() || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "deploy.deploy") || m.power != driver.PowerOff {
			t.Errorf("state %q, result %+v, power %s", d.State, d.Result, m.power)
		}
	})
}

// A node may leave the view together with its work, when its group is no longer this rackd's to serve, which
// changes the ring too.
func TestRunnerOfANodeThatIsGoneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		erase := did("erase_devices", new([]string))
		erase.NoRamdisk = true
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{clean: []driver.Step{erase}}, nil)
		defer kill()
		inHold(t, s)
		s.mu.Lock()
		delete(s.nodes, nodeA)
		delete(s.works, nodeA)
		s.mu.Unlock()
		c.mu.Lock()
		c.dirty[nodeA], c.allDirty = true, true
		c.mu.Unlock()
		c.wake()
		synctest.Wait()
		if c.runner(nodeA) != nil {
			t.Error("its runner goes on")
		}
	})
}
