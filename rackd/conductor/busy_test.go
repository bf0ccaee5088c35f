package conductor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// flashing is a step whose BMC works for so long. far is what it tells of that, and until when it
// answers, if not nil.
func flashing(length time.Duration, far func(age time.Duration) string, mute func(age time.Duration) bool) driver.Step {
	return driver.Step{Interface: "deploy", Name: "flash", Kind: driver.Reattachable, NoRamdisk: true,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			age := time.Since(t.Entered)
			switch {
			case age >= length:
				t.Record.Idle()
				return driver.Done(), nil
			case mute == nil || !mute(age):
				t.Record.Busy(far(age))
			}
			if t.Record.Handle() == nil {
				return driver.Wait(10 * time.Second), t.Record.SaveHandle(ctx, "the BMC's task")
			}
			return driver.Wait(10 * time.Second), nil
		}}
}

// A BMC that answers is alive: its step has all the time that it gets on in, and no failure cuts its
// power.
func TestStepsOfABMC(t *testing.T) {
	percent := func(age time.Duration) string { return fmt.Sprintf("running, %d %%", age/(10*time.Minute)) }
	for _, c := range []struct {
		name   string
		step   driver.Step
		kill   bool // the owner is lost after ten minutes
		within time.Duration
		says   string // in the failure; empty: it ends well
	}{
		{"45 minutes without progress", flashing(45*time.Minute, func(time.Duration) string { return "running" }, nil), false, 50 * time.Minute, ""},
		{"five hours with progress", flashing(5*time.Hour, percent, nil), false, 6 * time.Hour, ""},
		{"five hours with progress, taken over", flashing(5*time.Hour, percent, nil), true, 6 * time.Hour, ""},
		{"no progress for ever", flashing(24*time.Hour, func(time.Duration) string { return "running" }, nil), false, 3 * time.Hour, "running, unchanged for 2h3"},
		{"no progress for ever, taken over", flashing(24*time.Hour, func(time.Duration) string { return "running" }, nil), true, 3 * time.Hour, "running, unchanged for 2h3"},
		{"silent for ever", flashing(24*time.Hour, percent, func(age time.Duration) bool { return age > time.Minute }), false, 40 * time.Minute, "running, 0 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOn, clean: []driver.Step{c.step}}
				s, owner := newShelf(), owned("a")
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				defer func() { kill() }()
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash"}}})
				time.Sleep(10 * time.Minute)
				if c.kill {
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				}
				time.Sleep(c.within - 10*time.Minute)
				res := s.Work(nodeA).Doc.Result
				if res == nil || res.OK != (c.says == "") || !strings.Contains(res.Error, c.says) {
					t.Fatalf("after %s: %+v, want %q", c.within, res, c.says)
				}
				if c.says != "" && (len(m.writes) > 0 || !strings.Contains(res.Error, "keeps its power")) {
					t.Errorf("writes %q, told %q: its BMC may be at work", m.writes, res.Error)
				}
			})
		})
	}
}

// Power that is asked for beside a BMC's work is refused, until that has ended.
func TestPowerBesideABMCsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := slowly("after", time.Hour, new([]string))
		after.NoRamdisk = true
		m := &machine{power: driver.PowerOn, clean: []driver.Step{flashing(20*time.Minute, func(time.Duration) string { return "running" }, nil), after}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash"}, {Interface: "deploy", Step: "after"}}})
		time.Sleep(time.Minute)
		s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOff)})
		time.Sleep(time.Minute)
		if told := s.errands(); len(told) != 1 || !strings.Contains(told[0].Error, "its BMC is at work") || len(m.writes) > 0 {
			t.Fatalf("told %+v, writes %q", told, m.writes)
		}
		time.Sleep(20 * time.Minute)
		s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOff)})
		time.Sleep(time.Minute)
		if told := s.errands(); len(told) != 2 || told[1].Error != "" || m.power != driver.PowerOff {
			t.Errorf("told %+v, writes %q: the BMC has ended its work", told, m.writes)
		}
	})
}

// The same holds where the flow has booted the ramdisk, whose failure would switch the machine off.
func TestAFailureInTheRamdiskLeavesTheBMCAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flash := flashing(24*time.Hour, func(time.Duration) string { return "running" }, func(age time.Duration) bool { return age > time.Minute })
		m := &machine{power: driver.PowerOff, clean: []driver.Step{inRamdisk("up", true, time.Second, new([]string)), flash}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "up"}, {Interface: "deploy", Step: "flash"}}})
		time.Sleep(time.Hour)
		d := s.Work(nodeA).Doc
		if d.Open() || d.State != provision.CleanFail || m.power != driver.PowerOn || !strings.Contains(d.Result.Error, "keeps its power") {
			t.Errorf("in %q, the machine is %q after %q; %+v", d.State, m.power, m.writes, d.Result)
		}
	})
}

// deaf is a machine whose BMC is silent while it is to take the ramdisk's boot back.
type deaf struct{ *machine }

func (deaf) CleanUpRamdisk(context.Context, *driver.Task) error { return driver.ErrUnreachable }

// An abort that comes while such a failure is still carried out keeps the power, too, by whichever rackd. It comes too late.
func TestAnAbortOfAFailureLeavesTheBMCAtWork(t *testing.T) {
	for _, verb := range []work.Verb{work.Clean, work.Service} {
		for _, c := range []struct {
			name        string
			busy, dies  bool
			keeps, late bool
		}{
			{"the BMC is at work", true, false, true, true},
			{"the BMC is at work, and the rackd dies", true, true, true, true},
			{"the BMC is idle", false, false, false, false},
		} {
			t.Run(string(verb)+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					flash := flashing(24*time.Hour, func(time.Duration) string { return "running" }, func(age time.Duration) bool { return age > time.Minute || !c.busy })
					base := &machine{power: driver.PowerOff, clean: []driver.Step{inRamdisk("up", true, time.Second, new([]string)), flash}}
					s, owner := newShelf(), owned("a")
					oneNode(s)
					named := []driver.Named{{Name: "m", Impl: deaf{base}}}
					reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named}})
					if err != nil {
						t.Fatal(err)
					}
					on := func(name string) func() {
						_, _, kill := conductorOn(t, s, name, owner, base, func(cfg *Config) { cfg.Hardware = reg })
						return kill
					}
					kill := on("a")
					defer func() { kill() }()
					entry := map[work.Verb]provision.State{work.Clean: provision.Cleaning, work.Service: provision.Servicing}[verb]
					failed, _ := provision.Next(entry, provision.EventFail)
					s.request(nodeA, verb, entry, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "up"}, {Interface: "deploy", Step: "flash"}}})
					for end := time.Now().Add(3 * time.Hour); s.Work(nodeA).Doc.Checkpoint.Leaving == nil; time.Sleep(time.Second) {
						if time.Now().After(end) {
							t.Fatal("the flow does not fail")
						}
					}
					s.abort(nodeA, failed.To)
					if c.dies {
						time.Sleep(5 * time.Second)
						kill()
						owner.Store("b")
						kill = on("b")
					}
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					d := s.Work(nodeA).Doc
					if d.Open() {
						t.Fatalf("it goes on at %s", d.Checkpoint.Step)
					}
					off := len(base.written()) > 1
					if off == c.keeps && verb == work.Clean || c.keeps && (off || base.power != driver.PowerOn || d.State != failed.To) {
						t.Errorf("in %q, the machine is %q after %q; %+v", d.State, base.power, base.writes, d.Result)
					}
					if strings.Count(d.Result.Error, "The abort came too late") != map[bool]int{true: 1}[c.late] || c.keeps != strings.Contains(d.Result.Error, "keeps its power") {
						t.Errorf("told %q", d.Result.Error)
					}
				})
			})
		}
	}
}

// A BMC whose last progress another rackd has seen, by a clock that is hours behind, has not stood still for hours.
func TestProgressByAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := flashing(time.Hour, func(time.Duration) string { return "running" }, nil)
		m := &machine{power: driver.PowerOn, clean: []driver.Step{step}}
		s, owner := newShelf(), owned("a")
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owner, m, nil)
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash"}}})
		time.Sleep(time.Minute)
		kill()
		s.mu.Lock()
		w := *s.works[nodeA]
		w.Doc.Checkpoint.BMC = &work.Busy{Far: "running", Since: time.Now().Add(-5 * time.Hour)}
		w.Doc.Sign(testKey)
		s.rev++
		w.Revision = s.rev
		s.works[nodeA] = &w
		s.mu.Unlock()
		owner.Store("b")
		_, _, kill = conductorOn(t, s, "b", owner, m, nil)
		defer func() { kill() }()
		time.Sleep(65 * time.Minute)
		if res := s.Work(nodeA).Doc.Result; res == nil || !res.OK {
			t.Errorf("after an hour: %+v", res)
		}
	})
}
