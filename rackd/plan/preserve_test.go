package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// A deploy that is to keep the ephemeral partition has no step that takes it, also where a template names that step. It is refused before
// the machine is touched. A step with priority 0 does not run, and other flows keep nothing.
func TestADeployThatKeepsAPartitionHasNoStepThatTakesIt(t *testing.T) {
	for name, c := range map[string]struct {
		preserve any
		step     driver.AskedStep
		refused  bool
	}{
		"an erasure":            {true, driver.AskedStep{Interface: "deploy", Step: "erase_devices_metadata", Priority: 90}, true},
		"volumes":               {"True", driver.AskedStep{Interface: "raid", Step: "create", Priority: 90, Args: map[string]any{"size": 1}}, true},
		"volumes, switched off": {true, driver.AskedStep{Interface: "raid", Step: "create"}, false},
		"nothing is to stay":    {false, driver.AskedStep{Interface: "raid", Step: "create", Priority: 90, Args: map[string]any{"size": 1}}, false},
		"settings of the BIOS":  {true, driver.AskedStep{Interface: "bios", Step: "apply", Priority: 90}, false},
	} {
		r := request(t, true, c.step)
		r.Node.InstanceInfo = map[string]any{"preserve_ephemeral": c.preserve}
		_, err := r.Deploy()
		refused := errors.Is(err, driver.ErrInvalid) && strings.Contains(err.Error(), "preserve_ephemeral") && strings.Contains(err.Error(), c.step.Step)
		if refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
