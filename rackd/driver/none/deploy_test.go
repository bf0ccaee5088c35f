package none

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var _ driver.Deploy = Deploy{}

// A machine that another program installs is told nothing.
func TestNoopDeploy(t *testing.T) {
	r := drivertest.NewRig()
	r.SetPowerState(driver.PowerOn)
	if err := (Deploy{}).Validate(&node.Document{}); err != nil {
		t.Error(err)
	}
	steps := append(Deploy{}.DeploySteps(r.Node), Deploy{}.TearDownSteps(r.Node)...)
	if len(steps) != 2 || steps[0].Priority != 100 {
		t.Fatalf("%d steps: %+v", len(steps), steps)
	}
	for _, s := range steps {
		if out, err := s.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil || out != driver.Done() {
			t.Errorf("%s: %+v, %v", s.Name, out, err)
		}
	}
	if _, inBand := driver.Deploy(Deploy{}).(driver.InBand); inBand || len(r.Log) != 0 {
		t.Errorf("in band: %t, writes %q", inBand, r.Log)
	}
}
