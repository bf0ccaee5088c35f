package ramdisk

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var (
	_ driver.Deploy = Interface{}
	_ driver.InBand = Interface{}
)

// imageBoot boots images of instances, besides what a network boot does.
type imageBoot struct{ networkboot.Interface }

func (imageBoot) BootsImages() {}

func (imageBoot) PrepareInstance(ctx context.Context, t *driver.Task) error {
	return t.Hardware.Management().SetBootDevice(ctx, t.Fence, t.Node, "cdrom", true)
}

func TestBootsTheImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.SetPowerState(driver.PowerOn)
		i := New(direct.New(direct.Settings{}), bringup.Settings{})
		steps := i.DeploySteps(r.Node)
		if len(steps) != 1 {
			t.Fatalf("%d steps", len(steps))
		}
		for range 2 { // repeatable
			if _, err := steps[0].Run(t.Context(), r.Task(imageBoot{networkboot.IPXE()})); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"boot cdrom true", "boot cdrom true"}; !slices.Equal(r.Writes("boot"), want) {
			t.Errorf("boot devices %v", r.Writes("boot"))
		}
		if got := r.Writes("agent"); len(got) != 0 {
			t.Errorf("an agent was told %v", got)
		}
	})
}

// A boot interface that boots disks alone is refused before the machine is touched.
func TestNeedsABootInterface(t *testing.T) {
	r := drivertest.NewRig()
	i := New(direct.New(direct.Settings{}), bringup.Settings{})
	_, err := i.DeploySteps(r.Node)[0].Run(t.Context(), r.Task(networkboot.IPXE()))
	if !errors.Is(err, driver.ErrUnsupported) || len(r.Log) != 0 {
		t.Errorf("%v, writes %v", err, r.Log)
	}
	if err := i.Validate(&node.Document{UUID: "u"}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("without an image: %v", err)
	}
	if err := i.Validate(&node.Document{UUID: "u", InstanceInfo: map[string]any{FieldISO: "http://192.0.2.1/i.iso"}}); err != nil {
		t.Error(err)
	}
	if err := i.ValidateWith(r.Task(networkboot.IPXE()).Hardware, r.Node); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("with a boot interface that boots disks: %v", err)
	}
	r.Node.InstanceInfo = map[string]any{"capabilities": `{"boot_option": "ramdisk"}`}
	if err := i.ValidateWith(r.Task(imageBoot{networkboot.IPXE()}).Hardware, r.Node); err != nil {
		t.Error(err)
	}
}
