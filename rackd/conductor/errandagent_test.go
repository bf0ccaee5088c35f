package conductor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A request for power beside a flow that runs in the ramdisk fails, and nothing has happened to the machine. Its agent works on
// and is known as before.
func TestARefusedRestartLeavesTheAgent(t *testing.T) {
	for name, c := range map[string]struct {
		refusal error // nil: the order is taken, and the machine does not heed it
		target  driver.PowerState
		noOff   bool
	}{
		"refused":                    {driver.ErrInvalid, driver.Rebooting, false},
		"power off, refused":         {driver.ErrInvalid, driver.PowerOff, false},
		"unreachable":                {driver.ErrUnreachable, driver.Rebooting, false},
		"not supported":              {driver.ErrUnsupported, driver.Rebooting, false},
		"wrong password":             {driver.ErrDenied, driver.Rebooting, false},
		"the button is not heeded":   {nil, driver.SoftReboot, false},
		"reset, refused":             {driver.ErrInvalid, driver.Rebooting, true},
		"reset, unreachable":         {driver.ErrUnreachable, driver.SoftReboot, true},
		"reset, the wrong password":  {driver.ErrDenied, driver.Rebooting, true},
		"power off is not forwarded": {driver.ErrUnknown, driver.PowerOff, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTrial(t, nil)
				defer x.stop()
				x.lives.Store(true)
				token := x.agent(x.Conductor)
				time.Sleep(5 * time.Second)
				if a := x.runner(nodeA).Agent(); a == nil || a.URL == "" {
					t.Fatalf("no agent: %+v", a)
				}
				if c.noOff {
					n := *x.s.Node(nodeA)
					n.DisablePowerOff = true
					x.s.put(&n)
				}
				x.m.mu.Lock()
				x.m.powerErr = func(driver.PowerState) (error, bool) { return c.refusal, false }
				x.m.mu.Unlock()
				boot := x.bootOf(nodeA).Number
				x.s.errand(nodeA, work.Args{PowerTarget: string(c.target)})
				time.Sleep(11 * time.Minute)
				synctest.Wait()
				if told := x.s.errands(); len(told) != 1 || told[0].Error == "" {
					t.Fatalf("told %+v", told)
				}
				hb := call(token, hers.String(), "PEM", "1")
				hb.From = hers
				if err := x.Heartbeat(nodeA, hb); err != nil || x.runner(nodeA).Agent() == nil || x.bootOf(nodeA).Number != boot {
					t.Errorf("agent %+v of boot %d, which was %d; its heartbeat is answered: %v", x.runner(nodeA).Agent(), x.bootOf(nodeA).Number, boot, err)
				}
			})
		})
	}
}

// A rackd dies when a restart beside a flow was done and that is not written down yet. Its successor does not restart the
// machine once more, and the agent of the boot that was counted is taken in.
func TestARestartBesideAFlowIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		x.lives.Store(true)
		x.agent(x.Conductor)
		time.Sleep(5 * time.Second)
		cut := func(is bool) { x.s.mu.Lock(); x.s.cut = is; x.s.mu.Unlock() }
		x.m.mu.Lock()
		x.m.writes = nil
		x.m.mu.Unlock()
		x.m.onPower = func(target driver.PowerState) {
			if target == driver.PowerOn { // the bus is away from here on
				cut(true)
			}
		}
		first := x.bootOf(nodeA).Number
		x.s.errand(nodeA, work.Args{PowerTarget: string(driver.Rebooting)})
		time.Sleep(5 * time.Second)
		x.stop()
		x.m.onPower = nil
		cut(false)
		counted := x.doc().Checkpoint.Boot.Number
		x.owner.Store("b")
		next, kill := x.on("b", nil)
		defer kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		if told := x.s.errands(); len(x.m.writes) != 2 || len(told) != 1 || told[0].Error != "" || counted <= first || next.bootOf(nodeA).Number != counted {
			t.Errorf("one restart was asked for; orders %q; boot %d, then %d, then %d; told %+v", x.m.writes, first, counted, next.bootOf(nodeA).Number, told)
		}
		x.agent(next)
		if a := next.runner(nodeA).Agent(); a == nil || a.URL == "" {
			t.Errorf("the agent of the new boot is not known: %+v", a)
		}
	})
}

// In a hold an operator restarts the machine, for a look at the ramdisk. The ramdisk that comes up is told who it is, and its agent
// is there when the flow is let go.
func TestARamdiskThatIsRestartedInAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &trial{t: t, s: newShelf(), m: &machine{power: driver.PowerOff}, owner: owned("a")}
		x.m.deploy = []driver.Step{waitForAgent(x.m)}
		oneNode(x.s)
		x.Conductor, x.stop = x.on("a", nil)
		defer x.stop()
		x.s.request(nodeA, work.Deploy, provision.Deploying, work.Args{Steps: []work.Step{{Interface: "power", Step: "hold", Priority: 60}}})
		synctest.Wait()
		x.agent(x.Conductor)
		if d := x.doc(); d.State != provision.DeployHold {
			t.Fatalf("state %q", d.State)
		}
		first := x.bootOf(nodeA).Number
		x.s.errand(nodeA, work.Args{PowerTarget: string(driver.Rebooting)})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if told := x.s.errands(); len(told) != 1 || told[0].Error != "" || x.bootOf(nodeA).Number <= first || x.runner(nodeA).Agent() != nil {
			t.Fatalf("told %+v, boot %d after %d, agent %+v", told, x.bootOf(nodeA).Number, first, x.runner(nodeA).Agent())
		}
		x.agent(x.Conductor)
		if a := x.runner(nodeA).Agent(); x.doc().State != provision.DeployHold || a == nil || a.URL == "" {
			t.Errorf("in %q: agent %+v", x.doc().State, a)
		}
		x.s.goOn(nodeA, provision.DeployWait, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := x.doc(); d.Open() || !d.Result.OK {
			t.Errorf("let go: %q, %+v", d.State, d.Result)
		}
	})
}

// A rackd dies when a restart beside a flow has switched the machine off. Its successor makes the boot into the ramdisk ready once
// more. What the first had set for one start, the BMC or the driver may not know any more.
func TestARestartBesideAFlowThatIsTakenOverInItsMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		x.lives.Store(true)
		x.agent(x.Conductor)
		time.Sleep(5 * time.Second)
		x.m.mu.Lock()
		x.m.powerErr = func(target driver.PowerState) (error, bool) {
			if target != driver.PowerOn {
				return nil, true
			}
			x.s.mu.Lock()
			x.s.cut = true
			x.s.mu.Unlock()
			return driver.ErrUnreachable, false
		}
		x.m.mu.Unlock()
		x.s.errand(nodeA, work.Args{PowerTarget: string(driver.Rebooting)})
		time.Sleep(time.Second)
		x.stop()
		x.m.mu.Lock()
		x.m.powerErr, x.m.prepared = nil, 0
		x.m.mu.Unlock()
		x.s.mu.Lock()
		x.s.cut = false
		x.s.mu.Unlock()
		if step := x.doc().Checkpoint.Errand.Step; step != "power.power_off" {
			t.Fatalf("the errand stands behind %q", step)
		}
		x.owner.Store("b")
		_, kill := x.on("b", nil)
		defer kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		x.m.mu.Lock()
		defer x.m.mu.Unlock()
		if x.m.power != driver.PowerOn || x.m.prepared == 0 {
			t.Errorf("the machine is %q, and its boot was made ready %d times", x.m.power, x.m.prepared)
		}
	})
}

// A rackd dies between the count of a boot and the reset that a request asks for beside a flow. Where there was no reset the agent of
// before works on: the next owner asks it, takes the count back, and the flow keeps its agent. Else the boot that was counted stands.
func TestAResetThatWasCountedAndNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		lives  bool               // the agent of before answers
		change func(*work.Errand) // of the checkpoint that the next owner finds
		kept   bool
	}{
		"it was not sent":                {lives: true, kept: true},
		"it was sent":                    {},
		"an agent that no rackd has met": {lives: true, change: func(e *work.Errand) { e.Before.Agent.URL = "https://10.9.9.9:9999" }},
		"a checkpoint of an older rackd": {lives: true, change: func(e *work.Errand) { e.Before = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTrial(t, nil)
				x.lives.Store(true)
				token := x.agent(x.Conductor)
				time.Sleep(5 * time.Second)
				n := *x.s.Node(nodeA)
				n.DisablePowerOff = true
				x.s.put(&n)
				first := x.bootOf(nodeA).Number
				asked, dead := make(chan struct{}), make(chan struct{})
				x.m.mu.Lock()
				x.m.onPower = func(driver.PowerState) { close(asked); <-dead }
				x.m.powerErr = func(driver.PowerState) (error, bool) { return context.Canceled, false }
				x.m.mu.Unlock()
				x.s.errand(nodeA, work.Args{PowerTarget: string(driver.Rebooting)})
				<-asked
				go x.stop()
				synctest.Wait()
				close(dead)
				synctest.Wait()
				x.m.mu.Lock()
				x.m.onPower, x.m.powerErr, x.m.writes = nil, nil, nil
				x.m.mu.Unlock()
				if c.change != nil {
					x.s.mu.Lock()
					w := *x.s.works[nodeA]
					c.change(&w.Doc.Checkpoint.Errand)
					x.s.rev++
					w.Revision = x.s.rev
					x.s.works[nodeA] = &w
					x.s.mu.Unlock()
				}
				x.lives.Store(c.lives)
				x.owner.Store("b")
				next, kill := x.on("b", nil)
				defer kill()
				time.Sleep(time.Minute)
				synctest.Wait()
				hb := call(token, hers.String(), "PEM", "1")
				hb.From = hers
				err, told := next.Heartbeat(nodeA, hb), x.s.errands()
				if kept := err == nil; kept != c.kept || (next.bootOf(nodeA).Number == first) != c.kept {
					t.Errorf("the heartbeat of the agent of before is answered with %v, in boot %d after %d", err, next.bootOf(nodeA).Number, first)
				}
				if len(told) != 1 || strings.Contains(told[0].Error, "the agent of before still answers") != c.kept || told[0].Error == "" {
					t.Errorf("told %+v", told)
				}
				if d := x.doc(); !d.Open() || d.Checkpoint.Errand.Before != nil || len(x.m.written()) > 0 {
					t.Errorf("orders %q; %+v, %+v", x.m.written(), d.Checkpoint.Errand, d.Result)
				}
				if !c.kept { // the machine has started again
					x.agent(next)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if a := x.doc().Checkpoint.Agent; a == nil || a.URL == "" {
					t.Errorf("the checkpoint has the agent %+v", a)
				}
			})
		})
	}
}
