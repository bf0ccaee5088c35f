package conductor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A step that must not be repeated is not repeated on a child either.
func TestAStepOnAChildThatCannotBeRepeated(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("its rackd dies: ", dies), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				raw := driver.Step{Interface: "deploy", Name: "raw", Kind: driver.Neither, NoRamdisk: true, In: driver.InClean,
					Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
						if err := t.Fence.Check(); err != nil {
							return driver.Outcome{}, err
						}
						sent++
						if dies {
							<-ctx.Done()
							return driver.Outcome{}, ctx.Err()
						}
						return driver.Outcome{}, driver.ErrUnknown
					}}
				m := &machine{power: driver.PowerOff, clean: []driver.Step{raw}}
				s := newShelf()
				oneNode(s)
				s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
				owner := owned("a")
				_, _, kill := conductorOn(t, s, "a", owner, m, nil)
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "raw", OnChildren: true, Children: []string{nodeB}}}})
				time.Sleep(10 * time.Second)
				if dies {
					kill()
					owner.Store("b")
					_, _, kill = conductorOn(t, s, "b", owner, m, nil)
				}
				defer kill()
				time.Sleep(time.Minute)
				synctest.Wait()
				if sent != 1 {
					t.Errorf("it was sent %d times; %+v", sent, s.Work(nodeA).Doc.Result)
				}
			})
		})
	}
}

// counts is the parent's agent.
type counts struct {
	noAgent
	asked *[]string
}

func (counts) Commands(context.Context) ([]agentapi.Command, error) { return nil, nil }
func (c counts) Start(_ context.Context, f driver.Fence, _, name string, _ any) (agentapi.Command, error) {
	if err := f.Check(); err != nil {
		return agentapi.Command{}, err
	}
	*c.asked = append(*c.asked, name)
	return agentapi.Command{}, nil
}

// A child that nothing can switch off is not rebooted by way of its parent's agent.
func TestAChildsRebootLeavesTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, log []string
		m := &machine{power: driver.PowerOff, targets: []driver.PowerState{driver.PowerOn, driver.Rebooting}}
		s := newShelf()
		oneNode(s)
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
			withRamdisk(t, m, &log)(cfg)
			cfg.NewAgent = func(_ string, _ func() []string, state func() *work.Agent) driver.Agent {
				return counts{noAgent{state}, &asked}
			}
		})
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "power", Step: "reboot", OnChildren: true, Children: []string{nodeB}}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if slices.Contains(asked, agentapi.CmdRunImage) {
			t.Errorf("the parent's agent was asked for %q; %+v", asked, s.Work(nodeA).Doc.Result)
		}
	})
}
