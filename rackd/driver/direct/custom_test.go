package direct

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var (
	_ driver.Deploy = Custom{}
	_ driver.InBand = Custom{}
)

// A step of the agent's gets the instance's config drive where Ironic's agents look for it, and what central writes in its place
// nowhere. The steps of other flows get none.
func TestStepsOfADeployGetTheConfigDrive(t *testing.T) {
	for f, want := range map[driver.Flows]bool{driver.InDeploy: true, driver.InClean: false, driver.InService: false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Node.InstanceInfo = map[string]any{"configdrive": "kept", "image_source": "http://i/os.raw"}
			s := Custom{New(Settings{})}.inBand(offered{Interface: "deploy", Step: "install_coreos", Abortable: true}, f)
			if _, err := s.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(r.Writes("agent "+orders[f].execute), "; ")
			if strings.Contains(got, `"configdrive":"ZHJpdmU="`) != want || strings.Contains(got, "kept") || !strings.Contains(got, "http://i/os.raw") {
				t.Errorf("in a flow %s the step is told %s", f, got)
			}
			if r.Node.InstanceInfo["configdrive"] != "kept" {
				t.Error("the node's document was changed")
			}
		})
	}
}

// The image of a CD would be booted by nothing after the steps of a custom deploy.
func TestCustomRefusesTheImageOfACD(t *testing.T) {
	for image, refused := range map[any]bool{nil: false, "": false, "None": false, "http://192.0.2.1/i.iso": true} {
		r := newRig()
		r.Deploy, r.Node.InstanceInfo = Custom{New(Settings{})}, map[string]any{"boot_iso": image}
		err := r.Task(networkboot.IPXE()).Hardware.Validate("deploy", r.Node)
		if refused != errors.Is(err, driver.ErrInvalid) || !refused && err != nil || refused && !strings.Contains(err.Error(), "boot_iso: it is for the deploy interface ramdisk") {
			t.Errorf("boot_iso %v: %v", image, err)
		}
	}
}

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
