package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A hypervisor has stopped rackd's machine, and all of its clocks. When it goes on they say that the
// lease is held; the bus says that it has ended. Nothing is sent to a machine: not by a flow's step,
// not for a request beside a flow that waits, and not for one to an idle node.
func TestAPausedMachineWritesNothing(t *testing.T) {
	setBoot := ask.Request{Method: ask.SetBootDevice, Node: nodeA, Args: json.RawMessage(`{"boot_device":"disk"}`)}
	for name, act := range map[string]func(t *testing.T, s *shelf, c *Conductor, m *members){
		"a step": func(t *testing.T, s *shelf, _ *Conductor, m *members) {
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(time.Second)
			m.paused.Store(true)
			time.Sleep(time.Minute)
		},
		"a request beside a flow": func(t *testing.T, s *shelf, c *Conductor, m *members) {
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			time.Sleep(time.Second)
			m.paused.Store(true)
			if a := answersOf(c).Answer(t.Context(), setBoot); a.Error == nil || a.Error.Status != 409 {
				t.Errorf("answered %+v", a)
			}
		},
		"a request of an idle node": func(t *testing.T, s *shelf, c *Conductor, m *members) {
			m.paused.Store(true)
			if a := answersOf(c).Answer(t.Context(), setBoot); a.Error == nil || a.Error.Status != 409 {
				t.Errorf("answered %+v", a)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fenced error
				begun := false
				step := driver.Step{Interface: "deploy", Name: "switch", Priority: 90, Kind: driver.Repeatable,
					Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
						if !begun {
							begun = true
							return driver.Wait(10 * time.Second), nil
						}
						fenced = t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOn)
						return driver.Done(), fenced
					}}
				m := &machine{power: driver.PowerOff, deploy: []driver.Step{step}}
				s := newShelf()
				oneNode(s)
				c, ms, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				act(t, s, c, ms)
				synctest.Wait()
				if len(m.writes) != 0 {
					t.Errorf("wrote %v", m.writes)
				}
				if name == "a step" && !errors.Is(fenced, driver.ErrFenced) {
					t.Errorf("the step's write: %v", fenced)
				}
			})
		})
	}
}
