package direct

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
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
		remember(r.Task(networkboot.IPXE()), driver.InService, nil)
		if told := r.Task(networkboot.IPXE()).Facts[driver.FactAgentSteps]; strings.Contains(told, "secret") || strings.Contains(told, "burnin") {
			t.Errorf("kept of the new ramdisk: %s", told)
		}
		r.Node.DriverInfo, r.Node.AgentSteps = nil, []byte(strings.Replace(told, `"release":"`, `"release":"before-`, 1))
		if names, known := d.Remembered(r.Node, driver.InService); known {
			t.Errorf("service steps %v of another release", names)
		}
	})
}
