package conductor

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

const refusedBoot = `the boot interface "m" refuses`

// Where the boot interface alone refuses the node's fields, a flow that boots the ramdisk sends nothing to the machine.
func TestBootIsJudgedBeforeTheMachineIsTouched(t *testing.T) {
	for name, c := range map[string]struct {
		ending
		want provision.State
	}{
		"deploy":             {ending{verb: work.Deploy, entry: provision.Deploying, from: provision.Available}, provision.DeployFail},
		"rebuild":            {ending{verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance}, provision.Active},
		"automated cleaning": {ending{verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk}, provision.CleanFail},
		"manual cleaning":    {ending{verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase")}, provision.CleanFail},
		"out of band first": {ending{verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("bios", "erase")},
			provision.CleanFail},
		"service":    {ending{verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool")}, provision.ServiceFail},
		"inspection": {ending{verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk}, provision.InspectFail},
		"rescue":     {ending{verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance}, provision.RescueFail},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.flow, c.noBoot = name, true
				m, s := perform(t, c.ending)
				d := s.Work(nodeA).Doc
				if len(m.written()) > 0 || m.readied || m.runs != c.starts {
					t.Errorf("sent %q, the boot readied: %t; it runs %q", m.written(), m.readied, m.runs)
				}
				if d.State != c.want || d.Result.Fault != "" || !strings.Contains(d.Result.Error, refusedBoot) {
					t.Errorf("in %q, %+v", d.State, d.Result)
				}
			})
		})
	}
}

// An operator gets rid of an instance whatever the boot interface says of the cleaning that follows, and also where the rackd that has
// taken it off dies then.
func TestUndeployOfANodeThatCannotBoot(t *testing.T) {
	for name, at := range map[string]string{"one rackd": "", "taken over": "conductor.ended conductor.torn_down"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := perform(t, ending{flow: "undeploy", end: name, verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, noBoot: true, diesAt: at})
				d := s.Work(nodeA).Doc
				if row := ofNode(s, d); row[0] != "detached" || d.State != provision.CleanFail || d.Result.Fault != "" || !strings.Contains(d.Result.Error, refusedBoot) {
					t.Errorf("the ports are %s, in %q, %+v", row[0], d.State, d.Result)
				}
				if m.runs != "" || m.gets != "" || m.readied {
					t.Errorf("it runs %q and boots %q; the ramdisk readied: %t", m.runs, m.gets, m.readied)
				}
			})
		})
	}
}

// Central hears of such a boot interface before it accepts a request whose steps boot the ramdisk.
func TestBootIsJudgedBeforeARequestIsAccepted(t *testing.T) {
	step := func(name string) []work.Step { return []work.Step{{Interface: "deploy", Step: name, Priority: 50}} }
	for name, c := range map[string]struct {
		flow ask.Flow
		want bool
	}{
		"deploy":                    {ask.Flow{Verb: work.Deploy}, false},
		"rebuild":                   {ask.Flow{Verb: work.Rebuild}, false},
		"clean":                     {ask.Flow{Verb: work.Clean, Steps: step("erase")}, false},
		"clean without the ramdisk": {ask.Flow{Verb: work.Clean, Steps: step("bios"), DisableRamdisk: true}, true},
		"service":                   {ask.Flow{Verb: work.Service, Steps: step("tool")}, false},
		"inspect":                   {ask.Flow{Verb: work.Inspect}, false},
		"rescue":                    {ask.Flow{Verb: work.Rescue, RescuePassword: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &stage{machine: &machine{power: driver.PowerOff}, noBoot: true}
				s := newShelf()
				oneNode(s)
				c1, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, func(cfg *Config) { cfg.Hardware = m.hardware(t, false) })
				defer kill()
				args, err := json.Marshal(c.flow)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				reply := answersOf(c1).Answer(t.Context(), ask.Request{Method: ask.Validate, Node: nodeA, Args: args})
				var found map[string]ask.Validation
				if err := json.Unmarshal(reply.Body, &found); err != nil {
					t.Fatalf("%v, %+v", err, reply.Error)
				}
				if v := found[ask.Steps]; v.Result == nil || *v.Result != c.want || !c.want && !strings.Contains(v.Reason, refusedBoot) {
					t.Errorf("judged %+v", v)
				}
			})
		})
	}
}
