package conductor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// A BMC takes the order to switch on, and the machine comes on when the flow has given up, or was aborted. It is off in the end,
// whichever rackd leaves it. One that stays off, or was refused, keeps the flow for no longer than it may come on.
func TestAMachineThatComesOnLate(t *testing.T) {
	for _, c := range []struct {
		name    string
		after   time.Duration // 0: never
		refused bool
		abort   bool // after 30 s
		kill    bool // after 70 s, when the flow has failed
		ends    time.Duration
	}{
		{"it comes on", 75 * time.Second, false, false, false, 3 * time.Minute},
		{"it comes on after an abort", 75 * time.Second, false, true, false, 3 * time.Minute},
		{"it comes on at the next owner's", 75 * time.Second, false, false, true, 5 * time.Minute},
		{"it stays off", 0, false, false, false, 5 * time.Minute},
		{"the order is refused", 0, true, false, false, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOff}
				m.powerErr = func(target driver.PowerState) (error, bool) {
					switch {
					case target != driver.PowerOn:
						return nil, true
					case c.refused:
						return driver.ErrInvalid, false
					case c.after > 0:
						time.AfterFunc(c.after, func() { m.mu.Lock(); m.power = driver.PowerOn; m.mu.Unlock() })
					}
					return nil, false
				}
				m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Boots: true, Abortable: true, Retries: 4, Pause: 5 * time.Second,
					Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
						t.Facts[driver.FactBoot] = driver.BootRamdisk
						return bringup.Settings{}.Ramdisk(ctx, t)
					}}}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				began := time.Now()
				if c.abort {
					time.Sleep(30 * time.Second)
					s.abort(nodeA, provision.DeployFail)
				}
				if c.kill {
					time.Sleep(70 * time.Second)
					if s.Work(nodeA).Doc.Checkpoint.Leaving == nil {
						t.Fatal("the flow has not failed yet")
					}
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				}
				defer kill()
				time.Sleep(c.ends - time.Since(began))
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.State != provision.DeployFail {
					t.Fatalf("open %t in %q after %s", d.Open(), d.State, c.ends)
				}
				time.Sleep(5 * time.Minute)
				if now, _ := m.PowerState(t.Context(), nil); now != driver.PowerOff || d.Result.Power != string(driver.PowerOff) || strings.Contains(d.Result.Error, "could not be switched off") {
					t.Errorf("the machine is %q after %q; %+v", now, m.writes, d.Result)
				}
			})
		})
	}
}

// The next owner's clock is ahead: a machine that comes on late is off in the end all the same.
func TestAMachineThatComesOnLateByAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.powerErr = func(target driver.PowerState) (error, bool) {
			if target != driver.PowerOn {
				return nil, true
			}
			time.AfterFunc(75*time.Second, func() { m.mu.Lock(); m.power = driver.PowerOn; m.mu.Unlock() })
			return nil, false
		}
		m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Boots: true, Abortable: true,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				t.Facts[driver.FactBoot] = driver.BootRamdisk
				return bringup.Settings{}.Ramdisk(ctx, t)
			}}}
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(70 * time.Second)
		if s.Work(nodeA).Doc.Checkpoint.Leaving == nil {
			t.Fatal("the flow has not failed yet")
		}
		kill()
		s.mu.Lock()
		w := *s.works[nodeA]
		at, err := time.Parse(time.RFC3339, w.Doc.Checkpoint.Facts[driver.FactOnAsked])
		if err != nil {
			t.Error(err)
		}
		w.Doc.Checkpoint.Facts[driver.FactOnAsked] = at.Add(-5 * time.Minute).Format(time.RFC3339) // the next owner's clock is five minutes ahead
		s.works[nodeA] = &w
		s.mu.Unlock()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		defer kill()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if now, _ := m.PowerState(t.Context(), nil); now != driver.PowerOff {
			t.Errorf("the machine is %q; %+v", now, s.Work(nodeA).Doc.Result)
		}
	})
}

// A step that switches the machine on fails, for the machine is not on in time. It comes on after that, and is off in the end.
func TestAMachineThatComesOnLateAfterAPowerStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff}
		ons := 0
		m.powerErr = func(target driver.PowerState) (error, bool) {
			if target != driver.PowerOn {
				return nil, true
			}
			if ons++; ons == 1 {
				return nil, true
			}
			time.AfterFunc(75*time.Second, func() { m.mu.Lock(); m.power = driver.PowerOn; m.mu.Unlock() })
			return nil, false
		}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
			named := []driver.Named{{Name: "m", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
				"power": named, "management": named, "boot": named, "deploy": {{Name: "m", Impl: offers{m, &log}}}}})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Hardware = reg
		})
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "power", Step: "reboot"}, {Interface: "deploy", Step: "erase"}}})
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if now, _ := m.PowerState(t.Context(), nil); now != driver.PowerOff || ons < 2 {
			t.Errorf("the machine is %q after %q; %+v", now, m.writes, s.Work(nodeA).Doc.Result)
		}
	})
}

// The first order of a power step to switch on is lost on the way, and the next is refused: the machine comes on by the first after its
// flow has ended, and is off in the end.
func TestARefusalDoesNotTakeBackAnOrderBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOff}
		ons := 0
		m.powerErr = func(target driver.PowerState) (error, bool) {
			if target != driver.PowerOn {
				return nil, true
			}
			switch ons++; ons {
			case 1: // into the ramdisk
				return nil, true
			case 2:
				time.AfterFunc(75*time.Second, func() { m.mu.Lock(); m.power = driver.PowerOn; m.mu.Unlock() })
				return driver.ErrUnknown, false
			}
			return driver.ErrInvalid, false
		}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
			named := []driver.Named{{Name: "m", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
				"power": named, "management": named, "boot": named, "deploy": {{Name: "m", Impl: offers{m, &log}}}}})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Hardware = reg
		})
		defer kill()
		steps := []work.Step{{Interface: "power", Step: "reboot"}, {Interface: "deploy", Step: "erase"}}
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: steps})
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		d := s.Work(nodeA).Doc
		now, _ := m.PowerState(t.Context(), nil)
		if now != driver.PowerOff || ons < 3 || d.Open() || !strings.Contains(d.Result.Error, "reboot") {
			t.Errorf("the machine is %q after %q; %+v", now, m.writes, d.Result)
		}
	})
}

// So it is where the boot into the ramdisk is run again, by whichever rackd: the answers to its first orders are lost, and the next is
// refused. The flow looks for no machine whose one order was refused.
func TestARefusedBootDoesNotTakeBackAnOrderBeforeIt(t *testing.T) {
	for name, c := range map[string]struct {
		lost    int // orders whose answers are lost
		refusal error
		dies    bool
		on      bool // the first order is carried out, after the flow has given up
		ends    time.Duration
	}{
		"refused":                         {lost: 3, refusal: driver.ErrInvalid, on: true, ends: 5 * time.Minute},
		"a power transition is under way": {lost: 3, refusal: errors.New("409"), on: true, ends: 5 * time.Minute},
		"refused at once":                 {refusal: driver.ErrInvalid, ends: time.Minute},
		"refused, by the next owner":      {lost: 1, refusal: driver.ErrInvalid, dies: true, on: true, ends: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, ons := &machine{power: driver.PowerOff}, 0
				m.powerErr = func(target driver.PowerState) (error, bool) {
					if target != driver.PowerOn {
						return nil, true
					}
					if ons++; ons == 1 && c.on {
						time.AfterFunc(75*time.Second, func() { m.mu.Lock(); m.power = driver.PowerOn; m.mu.Unlock() })
					}
					if ons <= c.lost {
						return driver.ErrUnknown, false
					}
					return c.refusal, false
				}
				m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Boots: true, Abortable: true, Retries: 4, Pause: 5 * time.Second,
					Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
						t.Facts[driver.FactBoot] = driver.BootRamdisk
						return bringup.Settings{}.Ramdisk(ctx, t)
					}}}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				began := time.Now()
				if c.dies {
					time.Sleep(time.Second)
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				}
				defer func() { kill() }()
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.State != provision.DeployFail || d.Result.At.Sub(began) > c.ends || ons != c.lost+1 {
					t.Fatalf("in %q after %q, %+v", d.State, m.written(), d.Result)
				}
				if now, _ := m.PowerState(t.Context(), nil); now != driver.PowerOff {
					t.Errorf("the machine is %q after %q; %+v", now, m.written(), d.Result)
				}
			})
		})
	}
}
