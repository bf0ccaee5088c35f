package direct

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// What the agent has told of its steps counts for the ramdisk that has told it, and for each flow by itself.
func TestStepsOfTheAgentAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Runs = 2
		answer := r.Answer
		r.Answer = func(name string) (any, string) {
			if name == agentapi.CmdGetServiceSteps {
				return map[string]any{"service_steps": map[string]any{"generic": []any{map[string]any{"interface": "deploy", "step": "burnin"}}}}, ""
			}
			return answer(name)
		}
		d := New(Settings{})
		if _, known := d.Remembered(r.Node, driver.InService); known {
			t.Error("steps are known before any agent has told them")
		}
		if err := flow(t, r, d.Up(r.Node, driver.InService)); err != nil {
			t.Fatal(err)
		}
		told := r.Task(networkboot.IPXE()).Facts[driver.FactAgentSteps]
		r.Node.AgentSteps = []byte(told)
		if names, known := d.Remembered(r.Node, driver.InService); !known || !slices.Equal(names, []string{"deploy.burnin"}) {
			t.Errorf("service steps %v, %t of %s", names, known, told)
		}
		if names, known := d.Remembered(r.Node, driver.InDeploy); known {
			t.Errorf("deploy steps %v of an agent that was not asked for them", names)
		}
		r.Node.DriverInfo = map[string]any{ownramdisk.KernelField: "http://u:secret@host/k", ownramdisk.RamdiskField: "http://host/r"}
		if names, known := d.Remembered(r.Node, driver.InService); known {
			t.Errorf("service steps %v of another ramdisk", names)
		}
		d.remember(r.Task(networkboot.IPXE()), driver.InService, nil)
		if told := r.Task(networkboot.IPXE()).Facts[driver.FactAgentSteps]; strings.Contains(told, "secret") || strings.Contains(told, "burnin") {
			t.Errorf("kept of the new ramdisk: %s", told)
		}
		r.Node.DriverInfo, r.Node.AgentSteps = nil, []byte(strings.Replace(told, `"release":"`, `"release":"before-`, 1))
		if names, known := d.Remembered(r.Node, driver.InService); known {
			t.Errorf("service steps %v of another release", names)
		}
	})
}

// A ramdisk is named by more than two URLs. Whatever else has the machine boot another one makes what the former told count for
// nothing: its steps would be refused for ever.
func TestStepsOfAnotherRamdiskAreNotRemembered(t *testing.T) {
	for name, change := range map[string]func(*node.Document, *rack){
		"a ready image":           func(n *node.Document, _ *rack) { n.DriverInfo = map[string]any{"deploy_iso": "https://host/newer.iso"} },
		"another boot interface":  func(n *node.Document, _ *rack) { n.Interfaces = map[string]string{"boot": "redfish-virtual-media"} },
		"one of a resource class": func(n *node.Document, _ *rack) { n.ResourceClass = "gpu" },
		"one of an architecture":  func(n *node.Document, _ *rack) { n.Properties = map[string]any{"cpu_arch": "aarch64"} },
		"other parameters":        func(n *node.Document, _ *rack) { n.DriverInfo = map[string]any{ownramdisk.ParamsField: "managers=all"} },
		"the rack's, replaced":    func(_ *node.Document, has *rack) { has.identity = "newer" },
		"":                        func(*node.Document, *rack) {},
	} {
		r, has := newRig(), &rack{identity: "older"}
		r.Node.DriverInfo = map[string]any{}
		d := New(Settings{Ramdisks: has})
		task := r.Task(networkboot.IPXE())
		d.remember(task, driver.InService, []offered{{Interface: "deploy", Step: "burnin"}})
		n := *r.Node
		n.AgentSteps = []byte(task.Facts[driver.FactAgentSteps])
		change(&n, has)
		if names, known := d.Remembered(&n, driver.InService); known != (name == "") {
			t.Errorf("%s: %v, %t", name, names, known)
		}
	}
}

// rack has a ramdisk of its own.
type rack struct {
	ownramdisk.Rack
	identity string
}

func (r *rack) Identity() string { return r.identity }
