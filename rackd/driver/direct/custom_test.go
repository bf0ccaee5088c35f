package direct

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

var (
	_ driver.Deploy = Custom{}
	_ driver.InBand = Custom{}
)

// A custom deploy brings the agent up and down and leaves the disk to others.
func TestCustomWritesNoImage(t *testing.T) {
	r := newRig()
	r.Node.InstanceInfo = nil
	c := Custom{New(Settings{})}
	if err := c.Validate(r.Node); err != nil {
		t.Error(err)
	}
	var names []string
	for _, s := range c.DeploySteps(&node.Document{}) {
		names = append(names, s.Name)
	}
	if want := []string{"deploy", "prepare_instance_boot", "tear_down_agent", "boot_instance"}; !slices.Equal(names, want) {
		t.Errorf("steps %v, want %v", names, want)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := flow(t, r, c.DeploySteps(r.Node)); err != nil {
			t.Fatal(err)
		}
	})
	for _, name := range []string{agentapi.CmdPrepareImage, agentapi.CmdInstallBoot} {
		if got := r.Writes("agent " + name); len(got) != 0 {
			t.Errorf("the agent was told %v", got)
		}
	}
	if got := r.Writes("boot disk"); len(got) != 1 {
		t.Errorf("boot devices %v", got)
	}
}
