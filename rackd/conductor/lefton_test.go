package conductor

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// leftOn returns what a node's history says of a machine that was not switched off.
func leftOn(s *shelf) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		for _, l := range e.Lines() {
			if l.Phase == "power off" {
				lines = append(lines, l.Detail)
			}
		}
	}
	return lines
}

// The history of a node with disable_power_off says that an undeploy has left the former instance running. It does not say so where that is
// not the case, or not of an undeploy.
func TestAnUndeployTellsThatItLeavesTheMachineOn(t *testing.T) {
	undeploy := ending{verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, noOff: true}
	with := func(change func(*ending)) ending {
		e := undeploy
		change(&e)
		return e
	}
	for name, c := range map[string]struct {
		ending
		want string // in the one line; empty: there is none
	}{
		"without cleaning":               {with(func(e *ending) { e.unclean = true }), "disable_power_off forbids it, and no ramdisk was booted for a cleaning: the machine was left running"},
		"its power is not told":          {with(func(e *ending) { e.unclean, e.unread = true, true }), "the machine was left as it was, and may run"},
		"was off":                        {with(func(e *ending) { e.unclean, e.starts = true, "" }), ""},
		"may be switched off":            {with(func(e *ending) { e.unclean, e.noOff = true, false }), ""},
		"with cleaning":                  {undeploy, ""},
		"the cleaning fails":             {with(func(e *ending) { e.fails = "erase" }), ""},
		"no cleaning, for the fields":    {with(func(e *ending) { e.invalid = true }), "left running"},
		"the reset fails":                {with(func(e *ending) { e.stuck = true }), ""}, // last_error says that
		"the tear-down fails":            {with(func(e *ending) { e.unclean, e.fails = true, "tear_down" }), ""},
		"a cleaning of no instance":      {ending{verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, noOff: true, unclean: true}, ""},
		"a deploy that fails in between": {ending{verb: work.Deploy, entry: provision.Deploying, from: provision.Available, starts: itsDisk, noOff: true, fails: "write_image"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, s := perform(t, c.ending)
				switch lines := leftOn(s); {
				case c.want == "" && len(lines) != 0, c.want != "" && (len(lines) != 1 || !strings.Contains(lines[0], c.want)):
					t.Errorf("the history says %q, and not %q", lines, c.want)
				}
			})
		})
	}
}
