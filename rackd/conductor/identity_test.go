package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/smbios"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

const (
	boardOne      = "4c4c4544-0038-4d10-8058-b4c04f4d3433"
	boardOneMixed = "44454C4C-3800-104D-8058-B4C04F4D3433"
	boardTwo      = "4c4c4544-0038-4d10-8058-b4c04f4d3434"
)

// walk boots the ramdisk and writes a disk, in every flow that may.
func walk(m *machine, written *int) {
	write := driver.Step{Interface: "deploy", Name: "write", Priority: 5, Kind: driver.Repeatable, Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
		*written++
		return driver.Done(), nil
	}}
	m.deploy = []driver.Step{waitForAgent(m), write}
}

// After a board swap, or where a cable or a MAC address has moved, a flow fails before anything is written.
func TestAnotherMachineThanTheNodes(t *testing.T) {
	for _, c := range []struct {
		name                  string
		inspected, bmc, agent smbios.System
		refused               string // in the error; empty: the work ends well
	}{
		{name: "nothing is known"},
		{name: "all agree", inspected: smbios.System{UUID: boardOne, Serial: "A1"}, bmc: smbios.System{UUID: boardOneMixed, Serial: "PPID", SKU: "A1"}, agent: smbios.System{UUID: boardOne, Serial: "A1"}},
		{name: "placeholders", inspected: smbios.System{Serial: "A1"}, bmc: smbios.System{UUID: "00000000-0000-0000-0000-000000000000", Serial: "None"}, agent: smbios.System{UUID: boardOne, Serial: "Default string"}},
		{name: "the agent's is not the BMC's", bmc: smbios.System{UUID: boardTwo, Serial: "B2"}, agent: smbios.System{UUID: boardOne, Serial: "A1"}, refused: "the node's BMC says UUID \"" + boardTwo},
		{name: "the agent's is not the one inspected", inspected: smbios.System{Serial: "B2"}, agent: smbios.System{UUID: boardOne, Serial: "A1"}, refused: "last inspection says UUID \"\", serial number \"B2\""},
		{name: "the BMC's is not the one inspected", inspected: smbios.System{UUID: boardOne}, bmc: smbios.System{UUID: boardTwo}, refused: "last inspection says UUID \"" + boardOne},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m, written := newShelf(), &machine{power: driver.PowerOff}, 0
				m.identity = driver.Identity{UUID: c.bmc.UUID, Serial: c.bmc.Serial, SKU: c.bmc.SKU}
				walk(m, &written)
				oneNode(s)
				s.nodes[nodeA].Machine = c.inspected
				x, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				synctest.Wait()
				if s.Work(nodeA).Doc.Open() {
					time.Sleep(time.Second) // the agent boots
					q := lookupOf(x)
					q.System = c.agent
					if reply, err := x.LookupAgent(q); err == nil {
						x.Heartbeat(nodeA, call(reply.Config.AgentToken, hers.String(), "PEM", "1"))
					} else if c.refused == "" {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				d := s.Work(nodeA).Doc
				if c.refused == "" {
					if d.Open() || !d.Result.OK || written != 1 {
						t.Errorf("%+v, %d writes", d.Result, written)
					}
				} else if d.Open() || written > 0 || !strings.Contains(d.Result.Error, c.refused) || !strings.Contains(d.Result.Error, "inspect the node") {
					t.Errorf("%+v, %d writes", d.Result, written)
				}
				if m.asked > 1 {
					t.Errorf("the BMC was asked %d times", m.asked)
				}
			})
		})
	}
}

// The BMC is asked once in a flow, and a successor comes to the same verdict.
func TestSuccessorKnowsTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		x.m.mu.Lock()
		first := x.m.asked
		x.m.mu.Unlock()
		if first != 1 {
			t.Fatalf("asked %d times", first)
		}
		x.stop()
		x.m.identity = driver.Identity{UUID: boardTwo}
		x.owner.Store("b")
		c, stop := x.on("b", nil)
		defer stop()
		synctest.Wait()
		q := lookupOf(c)
		q.System = smbios.System{UUID: boardOne}
		if _, err := c.LookupAgent(q); !errors.Is(err, refusal.ErrUnproven) {
			t.Errorf("while the BMC is asked: %v", err)
		}
		synctest.Wait()
		if _, err := c.LookupAgent(q); !errors.Is(err, refusal.ErrNoNode) {
			t.Errorf("another machine: %v", err)
		}
		synctest.Wait()
		if d := x.doc(); d.Open() || !strings.Contains(d.Result.Error, boardTwo) || d.Checkpoint.Boot.BMC.UUID != boardTwo {
			t.Errorf("%+v, %+v", d.Result, d.Checkpoint.Boot)
		}
	})
}

// A BMC that does not tell stops nothing, and does not hold the agent off for ever.
func TestSilentBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written int
		s, m := newShelf(), &machine{power: driver.PowerOff, silent: fmt.Errorf("no route: %w", driver.ErrUnreachable)}
		walk(m, &written)
		oneNode(s)
		s.nodes[nodeA].Machine = smbios.System{UUID: boardOne}
		x, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(identityTries*identityWithin + time.Minute)
		q := lookupOf(x)
		q.System = smbios.System{UUID: boardOne}
		reply, err := x.LookupAgent(q)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Heartbeat(nodeA, call(reply.Config.AgentToken, hers.String(), "PEM", "1")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || written != 1 {
			t.Errorf("%+v, %d writes", d.Result, written)
		}
	})
}

// inspector is an inspection by the ramdisk's agent.
type inspector struct{ *machine }

func (i inspector) InspectSteps(n *node.Document) []driver.Step {
	boot := waitForAgent(i.machine)
	boot.Interface = "inspect"
	return []driver.Step{boot}
}

// An inspection accepts another board than the last one found; what the BMC says still counts.
func TestInspectionAcceptsAnotherBoard(t *testing.T) {
	for bmc, accepted := range map[string]bool{"": true, boardTwo: true, boardOne: false} {
		synctest.Test(t, func(t *testing.T) {
			s, m := newShelf(), &machine{power: driver.PowerOff, identity: driver.Identity{UUID: bmc}}
			oneNode(s)
			s.nodes[nodeA].Machine = smbios.System{UUID: boardOne, Serial: "A1"}
			x, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) { cfg.Hardware = withInspector(t, m) })
			defer kill()
			s.request(nodeA, work.Inspect, provision.Inspecting, work.Args{})
			time.Sleep(time.Second)
			q := lookupOf(x)
			q.System = smbios.System{UUID: boardTwo, Serial: "B2"}
			reply, err := x.LookupAgent(q)
			if accepted != (err == nil) {
				t.Fatalf("BMC %q: %v", bmc, err)
			}
			x.Heartbeat(nodeA, ask.Heartbeat{Heartbeat: agentapi.Heartbeat{CallbackURL: "https://10.0.0.1:9999", AgentVerifyCA: "PEM", BootID: "1", AgentToken: reply.Config.AgentToken}})
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Open() || d.Result.OK != accepted {
				t.Errorf("BMC %q: %+v", bmc, d.Result)
			}
		})
	}
}

func withInspector(t *testing.T, m *machine) *driver.Registry {
	t.Helper()
	named := []driver.Named{{Name: "m", Impl: m}}
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
		"power": named, "management": named, "boot": named, "deploy": named, "inspect": {{Name: "m", Impl: inspector{m}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return reg
}
