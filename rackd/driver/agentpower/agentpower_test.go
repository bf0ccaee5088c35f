package agentpower

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

var _ driver.Power = Interface{}

// Without an agent nothing is done, and nothing is known.
func TestWithoutAnAgent(t *testing.T) {
	t.Log("drivertest.Conformance is left out: this power interface reaches no machine and refuses each order; the flows ask the agent (driver.Task.ByAgent)")
	n, p, f := &node.Document{UUID: "b3d1", Name: "web1"}, Interface{}, &drivertest.Fence{}
	if is, err := p.PowerState(t.Context(), n); is != "" || err != nil {
		t.Errorf("power state %q, %v", is, err)
	}
	for target, says := range map[driver.PowerState]string{
		driver.PowerOn: "Failed to set node power state to power on.", driver.PowerOff: "Failed to set node power state to power off.",
		driver.SoftPowerOff: "Failed to set node power state to soft power off.",
		driver.Rebooting:    "Agent seems offline for node b3d1, the agent power interface cannot be used", driver.SoftReboot: "Agent seems offline for node b3d1",
	} {
		err := p.SetPower(t.Context(), f, n, target)
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "by hand") || strings.Count(err.Error(), "b3d1") != 1 {
			t.Errorf("%s: %v", target, err)
		}
	}
	if f.Checks.Load() != 0 {
		t.Error("the fence was asked, and nothing can be written")
	}
}
