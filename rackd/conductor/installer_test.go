package conductor

import (
	"context"
	"encoding/json"
	"errors"
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

// waitForInstaller boots an installer and waits for its word, as the deploy interface anaconda does.
func waitForInstaller(failed *string) driver.Step {
	return driver.Step{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Abortable: true,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if t.Record.Handle() == nil {
				t.Facts[driver.FactInstaller], t.Facts[driver.FactBoot], t.Facts[driver.FactBooted] = `{}`, driver.BootRamdisk, "yes"
				if err := t.Record.SaveHandle(ctx, "booting"); err != nil {
					return driver.Done(), err
				}
				if err := t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOn); err != nil {
					return driver.Done(), err
				}
			}
			var said driver.Reported
			if raw := t.Facts[driver.FactReported]; raw != "" {
				if err := json.Unmarshal([]byte(raw), &said); err != nil {
					return driver.Done(), err
				}
			}
			switch said.Status {
			case driver.InstallerEnded:
				return driver.Done(), nil
			case driver.InstallerFailed:
				*failed = said.Message
				return driver.Done(), errors.New(said.Message)
			}
			return driver.Wait(0), nil
		}}
}

// says is a report of the node's installer, with the token of its boot.
func says(c *Conductor, status, message string) ask.Heartbeat {
	return ask.Heartbeat{Heartbeat: agentapi.Heartbeat{Status: status, StatusMessage: message, AgentToken: testKey.Token(nodeA, c.runner(nodeA).Root(), c.bootOf(nodeA).Number)}}
}

// What an installer says moves the flow, and its deadline. Each word is in the checkpoint before it is answered.
func TestInstallersAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed string
		m := &machine{power: driver.PowerOff, deploy: []driver.Step{waitForInstaller(&failed)}}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if err := c.Heartbeat(nodeA, ask.Heartbeat{Heartbeat: agentapi.Heartbeat{Status: "start", AgentToken: "guess"}}); !errors.Is(err, refusal.ErrBadToken) {
			t.Errorf("of a stranger: %v", err)
		}
		agent := says(c, "", "")
		agent.CallbackURL, agent.AgentVerifyCA = "https://10.0.0.1:9999", "PEM"
		if err := c.Heartbeat(nodeA, agent); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "installer") {
			t.Errorf("an agent's call: %v", err)
		}
		if err := c.Heartbeat(nodeA, says(c, "dancing", "")); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("no status: %v", err)
		}
		for range 2 { // an installer whose answer was lost says it again
			if err := c.Heartbeat(nodeA, says(c, "start", "hello")); err != nil {
				t.Fatal(err)
			}
			if got := s.Work(nodeA).Doc.Checkpoint.Facts[driver.FactReported]; !strings.Contains(got, "hello") {
				t.Fatalf("answered, and the checkpoint has %q", got)
			}
		}
		info, _ := provision.Describe(provision.DeployWait)
		for range 3 { // longer than the deadline, in all
			time.Sleep(info.Deadline * 2 / 3)
			if err := c.Heartbeat(nodeA, says(c, "start", "hello")); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Heartbeat(nodeA, says(c, "end", "done")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.states(); !slices.Equal(got, []string{"deploying", "wait call-back", "deploying", "active"}) {
			t.Errorf("states reported: %v", got)
		}
		var told []string
		for _, e := range s.events {
			for _, l := range e.Lines() {
				if strings.HasPrefix(l.Phase, "installer") {
					told = append(told, l.Phase+": "+l.Detail)
				}
			}
		}
		if !slices.Equal(told, []string{"installer start: hello", "installer end: done"}) {
			t.Errorf("history %q", told)
		}
	})
}

// An installer's last word comes while the one before it is being written. It is not in what the step sees at its next run. The step runs
// once more then, and does not wait for its deadline.
func TestAnInstallersWordRightBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff, deploy: []driver.Step{waitForInstaller(new(string))}}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		run, last, behind := c.runner(nodeA), says(c, "end", "done"), make(chan error, 1)
		boot := run.Boot()
		s.mu.Lock()
		s.onPublish = func(e work.Event) {
			if !slices.ContainsFunc(e.Lines(), func(l work.Line) bool { return l.Phase == "installer start" }) {
				return
			}
			go func() { behind <- run.Report(boot, last) }()
			time.Sleep(time.Millisecond) // by then it waits for its answer
		}
		s.mu.Unlock()
		if err := c.Heartbeat(nodeA, says(c, "start", "hello")); err != nil {
			t.Fatal(err)
		}
		if err := <-behind; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.states(); !slices.Equal(got, []string{"deploying", "wait call-back", "deploying", "active"}) {
			t.Errorf("states reported: %v", got)
		}
	})
}

// An installer that fails, or that is silent, fails the deploy, with its own words.
func TestInstallersThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		does func(*testing.T, *Conductor)
		want string
	}{
		"by its word": {func(t *testing.T, c *Conductor) {
			if err := c.Heartbeat(nodeA, says(c, "error", "no disk")); err != nil {
				t.Error(err)
			}
		}, "no disk"},
		"by silence": {func(*testing.T, *Conductor) { time.Sleep(2 * time.Hour) }, "the installer did not report within"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failed string
				m := &machine{power: driver.PowerOff, deploy: []driver.Step{waitForInstaller(&failed)}}
				s := newShelf()
				oneNode(s)
				cond, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				synctest.Wait()
				c.does(t, cond)
				synctest.Wait()
				time.Sleep(time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.State != provision.DeployFail || d.Result == nil || !strings.Contains(d.Result.Error, c.want) {
					t.Errorf("state %q, result %+v, want %q", d.State, d.Result, c.want)
				}
				if m.power != driver.PowerOff {
					t.Errorf("the machine is %s", m.power)
				}
			})
		})
	}
}

// Ironic's own kickstart reboots the machine at its end. Where that is faster than rackd, whose BMC may be away, the installer begins
// once more: it is refused, by its boot's token too, before it clears the disk.
func TestAnInstallerThatBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed string
		step := waitForInstaller(&failed)
		last := driver.Step{Interface: "deploy", Name: "boot_instance", Priority: 20, Kind: driver.Reattachable, Run: func(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Wait(0), nil }}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff, deploy: []driver.Step{step, last}}, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		for _, status := range []string{"start", "end"} {
			if err := c.Heartbeat(nodeA, says(c, status, "")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := c.Heartbeat(nodeA, says(c, "start", "")); !errors.Is(err, refusal.ErrBadToken) {
			t.Errorf("the installer begins again: %v", err)
		}
		if err := c.Heartbeat(nodeA, says(c, "end", "")); err != nil { // its answer was lost
			t.Errorf("its end, said again: %v", err)
		}
	})
}

// A rackd that takes the flow over knows what the installer has said, and hears the rest.
func TestTakeoverHearsTheInstaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed string
		m := &machine{power: driver.PowerOff, deploy: []driver.Step{waitForInstaller(&failed)}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		a, _, killA := conductorOn(t, s, "a", owner, m, nil)
		b, _, killB := conductorOn(t, s, "b", owner, m, nil)
		defer killB()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if err := a.Heartbeat(nodeA, says(a, "start", "hello")); err != nil {
			t.Fatal(err)
		}
		end := says(a, "end", "done")
		killA()
		owner.Store("b")
		b.RingChanged()
		synctest.Wait()
		if err := b.Heartbeat(nodeA, end); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active {
			t.Errorf("state %q", d.State)
		}
	})
}
