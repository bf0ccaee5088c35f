package conductor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A rackd dies while the ramdisk of a cleaning boots. Its successor is of another version, with other out-of-band steps. It
// runs those that the first rackd had, with the agent's among them by priority, or it fails and names the one that it lacks.
func TestASuccessorAddsTheAgentsStepsOnly(t *testing.T) {
	type has map[string]int // out-of-band steps and their priorities
	for name, c := range map[string]struct {
		verb   work.Verb
		first  has // of the rackd that begins; nil: reset and wipe
		steps  has
		bare   bool // the successor's steps do without the ramdisk
		flags  map[string]int
		before bool   // the checkpoint is of a rackd from before steps were promised
		wants  string // steps that ran
		failed string // part of the error
	}{
		"the same":                         {steps: has{"reset": 30, "wipe": 5}, wants: "reset,erase,wipe,down"},
		"the same, undeploy":               {verb: work.Delete, steps: has{"reset": 30, "wipe": 5}, wants: "reset,erase,wipe,down"},
		"more":                             {steps: has{"new": 40, "reset": 30, "newer": 8, "wipe": 5, "newest": 1}, wants: "reset,erase,wipe,down"},
		"more, undeploy":                   {verb: work.Delete, steps: has{"new": 40, "reset": 30, "wipe": 5}, wants: "reset,erase,wipe,down"},
		"fewer":                            {steps: has{"wipe": 5}, failed: "deploy.reset was in the plan when the work began, but this rackd has no such step"},
		"fewer, undeploy":                  {verb: work.Delete, steps: has{"reset": 30}, failed: "deploy.wipe was in the plan"},
		"none":                             {failed: "deploy.reset was in the plan"},
		"other priorities":                 {steps: has{"reset": 2, "wipe": 99}, wants: "reset,erase,wipe,down"},
		"not of their own accord":          {steps: has{"reset": 0, "wipe": 0}, wants: "reset,erase,wipe,down"},
		"switched off by flags":            {steps: has{"reset": 30, "wipe": 5}, flags: map[string]int{"deploy.reset": 0}, wants: "reset,erase,wipe,down"},
		"the agent's of its own":           {steps: has{"reset": 30, "wipe": 5, "erase": 0}, wants: "reset,erase,wipe,down"},
		"one that the first leaves out":    {first: has{"reset": 30, "erase": 0}, steps: has{"reset": 30, "erase": 0}, wants: "reset,down"},
		"one that the first left out":      {first: has{"reset": 30, "erase": 0}, steps: has{"reset": 30, "erase": 99}, wants: "reset,down"},
		"it lacks what the first left out": {first: has{"reset": 30, "erase": 0}, steps: has{"reset": 30}, wants: "reset,down"},
		"none was promised":                {before: true, steps: has{"new": 40, "wipe": 5}, wants: "new,erase,wipe,down"},
		"asked for":                        {verb: work.Clean, steps: has{"wipe": 5, "reset": 30}, wants: "wipe,erase,reset,down"},
		"asked for, fewer":                 {verb: work.Clean, steps: has{"wipe": 5}, failed: "deploy.reset was in the plan"},
		"asked for, without ramdisk":       {verb: work.Clean, steps: has{"wipe": 5, "reset": 30, "erase": 0}, bare: true, wants: "wipe,erase,reset,down"},
		"asked for, none was promised":     {verb: work.Clean, before: true, steps: has{"wipe": 5, "reset": 30, "new": 3}, wants: "wipe,erase,reset,down"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				stepsOf := func(h has) (steps []driver.Step) {
					for n, priority := range h {
						s := did(n, &log)
						s.Priority, s.In = priority, driver.InClean
						steps = append(steps, s)
					}
					return steps
				}
				if c.first == nil {
					c.first = has{"reset": 30, "wipe": 5}
				}
				m := &machine{power: driver.PowerOff, clean: stepsOf(c.first)}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				named := []driver.Named{{Name: "m", Impl: m}}
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
					"power": named, "management": named, "boot": named, "deploy": {{Name: "m", Impl: offers{m, &log}}}}})
				if err != nil {
					t.Fatal(err)
				}
				hardware := func(cfg *Config) { cfg.Hardware = reg }
				_, _, kill := conductorOn(t, s, "a", owner, m, hardware)
				switch c.verb {
				case work.Delete:
					s.request(nodeA, work.Delete, provision.Deleting, work.Args{})
				case work.Clean:
					s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{
						{Interface: "deploy", Step: "wipe"}, {Interface: "deploy", Step: "erase"}, {Interface: "deploy", Step: "reset"}}})
				default:
					s.request(nodeA, work.Provide, provision.Cleaning, work.Args{})
				}
				time.Sleep(30 * time.Second) // the ramdisk boots
				kill()
				s.mu.Lock()
				if cp := &s.works[nodeA].Doc.Checkpoint; c.before {
					cp.Plan = cp.Plan[:cp.Index+1]
				}
				s.mu.Unlock()
				m.clean = stepsOf(c.steps)
				for i := range m.clean {
					m.clean[i].NoRamdisk = c.bare
				}
				m.teardown = append(m.teardown, did("unplug", &log)) // which the first had not
				owner.Store("b")
				_, _, kill = conductorOn(t, s, "b", owner, m, func(cfg *Config) { hardware(cfg); cfg.CleanPriorities = c.flags })
				defer kill()
				time.Sleep(10 * time.Minute)
				d := s.Work(nodeA).Doc
				if got := strings.Join(log, ","); d.Open() || got != c.wants || m.power != driver.PowerOff {
					t.Errorf("ran %q, want %q; ended in %q, the machine is %q; %+v", got, c.wants, d.State, m.power, d.Result)
				}
				if d.Result != nil && (d.Result.OK != (c.failed == "") || !strings.Contains(d.Result.Error, c.failed)) {
					t.Errorf("ended in %q: %+v", d.State, d.Result)
				}
			})
		})
	}
}
