package conductor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// ill is a management interface that tells how its machine is.
type ill struct {
	*machine
	health string
}

func (i *ill) Observe(context.Context, *node.Document) (hardware.Observation, error) {
	return hardware.Observation{Health: &i.health}, nil
}

// What this rackd told of a machine's health is news again when another rackd may have told otherwise, and when
// it is not certain that the bus took it.
func TestHealthIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		owner, i := owned("a"), &ill{&machine{power: driver.PowerOn}, "OK"}
		c, _, kill := conductorOn(t, s, "a", owner, nil, func(c *Config) {
			named := []driver.Named{{Name: "m", Impl: i.machine}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
				"power": named, "management": {{Name: "i", Impl: i}}, "boot": named, "deploy": named}})
			if err != nil {
				t.Fatal(err)
			}
			c.Hardware = reg
		})
		defer kill()
		synctest.Wait()
		told := func(when string, want int) {
			t.Helper()
			s.mu.Lock()
			s.events = nil
			s.mu.Unlock()
			n, hw, err := c.Idle(nodeA)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := c.SawHardware(t.Context(), n, hw); err != nil {
					t.Fatal(err)
				}
			}
			if len(s.events) != want {
				t.Errorf("%s: told %d times, want %d", when, len(s.events), want)
			}
		}
		told("at first", 1)
		told("when nothing has changed", 0)
		for _, has := range []string{"b", "a"} {
			owner.Store(has)
			c.RingChanged()
			synctest.Wait()
		}
		told("when another rackd had the node", 1)
		n, hw, _ := c.Idle(nodeA)
		i.health, s.cut = "Critical", true
		if err := c.SawHardware(t.Context(), n, hw); err == nil {
			t.Error("told although the bus does not answer")
		}
		i.health, s.cut = "OK", false
		told("when the bus may have taken that it is critical", 1)
	})
}

// keeping keeps something of each node that no document shows yet.
type keeping struct{}

func (keeping) Kept(*node.Document) json.RawMessage { return json.RawMessage(`{"bmc_keys":"k"}`) }

// What drivers keep of an idle machine is told once, and again while the document does not show it.
func TestWhatDriversKeepOfIdleMachinesIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), nil, func(c *Config) {
			named := []driver.Named{{Name: "m", Impl: &machine{power: driver.PowerOn}}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Keeper: keeping{}, Interfaces: map[string][]driver.Named{
				"power": named, "management": named, "boot": named, "deploy": named}})
			if err != nil {
				t.Fatal(err)
			}
			c.Hardware = reg
		})
		defer kill()
		synctest.Wait()
		n, hw, err := c.Idle(nodeA)
		if err != nil {
			t.Fatal(err)
		}
		look := func(when string, want int) {
			t.Helper()
			s.mu.Lock()
			s.events = nil
			s.mu.Unlock()
			for range 2 {
				if err := c.SawHardware(t.Context(), n, hw); err != nil {
					t.Fatal(err)
				}
			}
			told := 0
			for _, e := range s.events {
				if e.Hardware != nil && string(e.Hardware.Kept) == `{"bmc_keys":"k"}` {
					told++
				}
			}
			if told != want {
				t.Errorf("%s: told %d times, want %d", when, told, want)
			}
		}
		look("at first", 1)
		look("just after it", 0)
		<-time.After(keptAgain)
		look("when the document has not shown it for long", 1)
		<-time.After(keptAgain)
		s.cut = true
		if err := c.SawHardware(t.Context(), n, hw); err == nil {
			t.Error("told although the bus does not answer")
		}
		s.cut = false
		look("when the bus may not have taken it", 1)
	})
}

// onceMet keeps something of a machine whose BMC has been talked to.
type onceMet struct{ met func() bool }

func (k onceMet) Kept(*node.Document) json.RawMessage {
	if !k.met() {
		return nil
	}
	return json.RawMessage(`{"bmc_keys":"k"}`)
}

// The verification of a node is often the first talk with its BMC. What drivers keep of that is told, also where the BMC refuses the
// login: who answers at the address next has to show the same key.
func TestWhatDriversKeepOfAVerificationIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		answer error // to the power read
		later  bool  // the management talks to a BMC, and the power interface to none
	}{"in order": {}, "a login that is refused": {answer: driver.ErrInvalid}, "in order, by its management": {later: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf()
			oneNode(s)
			m, read := &machine{power: driver.PowerOn, readErr: func() error { return c.answer }}, false
			m.onRead = func() { read = true }
			k := onceMet{func() bool { return read && (!c.later || m.asked > 0) }}
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) {
				named := []driver.Named{{Name: "m", Impl: m}}
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Keeper: k, Interfaces: map[string][]driver.Named{
					"power": named, "management": named, "boot": named, "deploy": named}})
				if err != nil {
					t.Fatal(err)
				}
				c.Hardware = reg
			})
			defer kill()
			s.request(nodeA, work.Manage, provision.Verifying, work.Args{})
			<-time.After(time.Minute)
			synctest.Wait()
			want := provision.Manageable
			if c.answer != nil {
				want = provision.Enroll
			}
			if d := s.Work(nodeA).Doc; d.Open() || d.State != want {
				t.Fatalf("%s: %q, %+v", name, d.State, d.Result)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			told := false
			for _, e := range s.events {
				told = told || e.Hardware != nil && string(e.Hardware.Kept) == `{"bmc_keys":"k"}`
			}
			if !told {
				t.Errorf("%s: what the driver keeps of the BMC is not told", name)
			}
		})
	}
}

// A power state is told again now and then, for the event that told it may have been lost. That
// costs the WAN next to nothing.
func TestPowerIsToldAgainNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOn}, nil)
		defer kill()
		synctest.Wait()
		n, _, err := c.Idle(nodeA)
		if err != nil {
			t.Fatal(err)
		}
		const hours = 30
		for began := time.Now(); time.Since(began) < hours*time.Hour; {
			if err := c.SawPower(t.Context(), n, driver.PowerOn, time.Now(), false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute) // the clock of the test's bubble
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if told := len(s.events); told != 1+(hours-1)/6 {
			t.Errorf("told %d times in %d hours", told, hours)
		}
		bytes := 0
		for _, e := range s.events {
			body, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(body) + wanPerEvent
		}
		if each := bytes / hours; each > 256 {
			t.Errorf("an idle node costs %d bytes an hour, a quarter of the budget is 256", each)
		}
	})
}

// wanPerEvent is more than an event costs the WAN besides its content: its subject three times,
// the headers of delivery and the acknowledgement.
const wanPerEvent = 700

// A power state that the bus did not take, or took without saying so, is told again.
func TestPowerThatWasNotToldIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, nil)
		defer kill()
		synctest.Wait()
		n := s.Node(nodeA)
		saw := func(p driver.PowerState) error { return c.SawPower(t.Context(), n, p, time.Now(), false) }
		if err := saw(driver.PowerOn); err != nil {
			t.Fatal(err)
		}
		s.cut = true
		if saw(driver.PowerOff) == nil {
			t.Error("told although the bus does not answer")
		}
		s.cut = false
		for _, p := range []driver.PowerState{driver.PowerOff, driver.PowerOff} {
			if err := saw(p); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.events) != 2 || s.events[1].Power != string(driver.PowerOff) {
			t.Errorf("told %+v, want both states once", s.events)
		}
	})
}

// deafening is a power interface whose machine is switched while the bus goes away for a while.
type deafening struct {
	*machine
	s *shelf
}

func (d deafening) SetPower(ctx context.Context, f driver.Fence, n *node.Document, p driver.PowerState) error {
	d.s.mu.Lock()
	d.s.cut = true
	d.s.mu.Unlock()
	return d.machine.SetPower(ctx, f, n, p)
}

// A machine that was switched while the bus was away is on, and the request has not failed.
func TestPowerRequestOutlastsTheBusBeingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := newShelf(), &machine{power: driver.PowerOff}
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), nil, func(c *Config) {
			named := []driver.Named{{Name: "m", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
				"power": {{Name: "p", Impl: deafening{m, s}}}, "management": named, "boot": named, "deploy": named}})
			if err != nil {
				t.Fatal(err)
			}
			c.Hardware = reg
		})
		defer kill()
		s.request(nodeA, work.Power, provision.Available, work.Args{PowerTarget: string(driver.PowerOn)})
		time.Sleep(30 * time.Second)
		s.mu.Lock()
		s.cut = false
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || m.power != driver.PowerOn {
			t.Errorf("the machine is %q, and the request ended as %+v", m.power, d.Result)
		}
	})
}

// So a config drive that the bus does not give at once is asked for again.
func TestConfigDriveOutlastsTheBusBeingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := newShelf(), ""
		oneNode(s)
		s.noDrives = 2
		m := &machine{deploy: []driver.Step{{Interface: "deploy", Name: "write", Priority: 50, Kind: driver.Repeatable, Retries: 2, Pause: time.Second,
			Run: func(ctx context.Context, t *driver.Task) (_ driver.Outcome, err error) {
				got, err = t.ConfigDrive(ctx)
				return driver.Done(), err
			}}}}
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) {
			c.BuildDrive = func(_ context.Context, input, _, _ string) (string, error) { return "built of " + input, nil }
		})
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{ConfigDrive: "drive"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || got != "built of drive" {
			t.Errorf("the drive is %q, and the deploy ended as %+v", got, d.Result)
		}
	})
}

// A config drive that the bus has lost is waited for until central has written it again, far longer than a
// step's retries last; for no longer than the state may last.
func TestLostConfigDriveIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		lost int
		says string
	}{"written again": {lost: 20}, "never": {10000, "central is asked to write it again"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, got := newShelf(), ""
				oneNode(s)
				s.lostDrives = tc.lost
				m := &machine{deploy: []driver.Step{{Interface: "deploy", Name: "write", Priority: 50, Kind: driver.Repeatable, Retries: 2, Pause: time.Second,
					Run: func(ctx context.Context, t *driver.Task) (_ driver.Outcome, err error) {
						got, err = t.ConfigDrive(ctx)
						return driver.Done(), err
					}}}}
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(c *Config) {
					c.BuildDrive = func(_ context.Context, input, _, _ string) (string, error) { return "built of " + input, nil }
				})
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{ConfigDrive: "drive"})
				time.Sleep(time.Minute)
				synctest.Wait()
				if d := s.Work(nodeA).Doc; !d.Open() {
					t.Fatalf("the deploy ended after a minute as %+v", d.Result)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.Result.OK != (tc.says == "") || d.Result.OK && got != "built of drive" || !strings.Contains(d.Result.Error, tc.says) {
					t.Errorf("the drive is %q, and the deploy ended as %+v", got, d.Result)
				}
			})
		})
	}
}

// What the end of an errand tells of the power is not what was told last: so whoever looks next is heard.
func TestErrandsPowerIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, erase, m := newShelf(), did("erase_devices", new([]string)), &machine{power: driver.PowerOff}
		erase.NoRamdisk = true
		m.clean = []driver.Step{erase}
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		inHold(t, s)
		if err := c.SawPower(t.Context(), s.Node(nodeA), driver.PowerOff, time.Now(), false); err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		m.power = driver.PowerOn // by itself
		m.mu.Unlock()
		s.errand(nodeA, work.Args{PowerTarget: "sideways"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if told := s.errands(); len(told) != 1 || told[0].Power != string(driver.PowerOn) {
			t.Fatalf("told %+v", told)
		}
		before := len(s.events)
		if err := c.SawPower(t.Context(), s.Node(nodeA), driver.PowerOff, time.Now(), false); err != nil {
			t.Fatal(err)
		}
		if len(s.events) != before+1 {
			t.Error("the machine is off again, and nobody hears of it")
		}
	})
}

// A state that central is to correct is told at each read, three times, and is known then. One that comes back by itself ends that.
func TestForcedPowerIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, nil)
		defer kill()
		synctest.Wait()
		n := s.Node(nodeA)
		told := func(p driver.PowerState, reads int) int {
			s.mu.Lock()
			before := len(s.events)
			s.mu.Unlock()
			for range reads {
				if err := c.SawPower(t.Context(), n, p, time.Now(), true); err != nil {
					t.Fatal(err)
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, e := range s.events[before:] {
				if !e.ForcePower {
					t.Errorf("%+v does not ask to force power", e)
				}
			}
			return len(s.events) - before
		}
		for i, c := range []struct {
			power driver.PowerState
			reads int
			told  int
		}{{driver.PowerOn, 5, 1}, {driver.PowerOff, 2, 2}, {driver.PowerOn, 3, 0}, {driver.PowerOff, 6, 3}, {driver.PowerOn, 1, 1}} {
			if got := told(c.power, c.reads); got != c.told {
				t.Errorf("%d: %d reads of %s were told %d times, want %d", i, c.reads, c.power, got, c.told)
			}
		}
	})
}
