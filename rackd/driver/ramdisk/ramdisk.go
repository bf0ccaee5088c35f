// Package ramdisk is the deploy interface "ramdisk": the instance is an image that the
// machine boots and runs in memory, and nothing is written to a disk. Which boot
// interface can do that says so by implementing Booter.
//
// It may import rackd/driver, rackd/driver/bringup, rackd/driver/direct (whose agent
// cleans and services these machines too) and protocol.
package ramdisk

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
)

// Booter is a boot interface whose PrepareInstance boots an image of the node's
// instance_info.
type Booter interface {
	// BootsImages does nothing; it tells these interfaces from the others.
	BootsImages()
}

// FieldISO of instance_info is the URL of the image, with Ironic's name.
const FieldISO = "boot_iso"

// Interface implements driver.Deploy. Immutable, safe for concurrent use.
type Interface struct {
	direct.Interface
	power bringup.Settings
}

// New returns the interface; agent brings up the agent that cleans.
func New(agent direct.Interface, power bringup.Settings) Interface { return Interface{agent, power} }

// Properties names the fields that are read.
func (Interface) Properties() map[string]string { return nil }

// InstanceFields names what is read of instance_info.
func (Interface) InstanceFields() []string { return []string{FieldISO} }

// Validate asks for an image.
func (Interface) Validate(n *node.Document) error {
	if url, _ := n.InstanceInfo[FieldISO].(string); url == "" {
		return fmt.Errorf("node %s: instance_info has no %s, the URL of the image that the machine is to run: %w", n.Label(), FieldISO, driver.ErrInvalid)
	}
	return nil
}

// ValidateWith asks for a boot interface that boots an image, and checks what the instance's capabilities ask for.
func (Interface) ValidateWith(h *driver.Hardware, n *node.Document) error {
	if _, can := h.Boot().(Booter); !can {
		return fmt.Errorf("node %s: the boot interface %q cannot boot the image of an instance, but the deploy interface \"ramdisk\" needs that: %w",
			n.Label(), h.Kinds()["boot"].Name, driver.ErrInvalid)
	}
	return driver.ValidateInstance(h, n, "ramdisk")
}

// DeploySteps are one: boot the image.
func (i Interface) DeploySteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Abortable: true, Retries: 4, Pause: 5 * time.Second, Run: i.boot}}
}

func (i Interface) boot(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	boot := t.Hardware.Boot()
	if _, can := boot.(Booter); !can {
		return driver.Outcome{}, fmt.Errorf("boot the image of an instance: %w", driver.Unsupported(t.Node, "boot", "ramdisk deploys"))
	}
	if !t.StaysOn() {
		if err := i.power.Off(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
	}
	if err := driver.SetSecureBoot(ctx, t, true); err != nil {
		return driver.Outcome{}, err
	}
	if err := boot.PrepareInstance(ctx, t); err != nil {
		return driver.Outcome{}, err
	}
	if err := i.power.IntoInstance(ctx, t, false); err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Phase("reboot", "into the instance's image, boot mode "+t.Node.BootMode())
	return driver.Done(), nil
}
