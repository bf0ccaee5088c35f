// Package ramdisk is the deploy interface "ramdisk": the instance is a kernel and a ramdisk, or an image of a CD, which the
// machine boots and runs in memory. Nothing is written to a disk. Which boot interface can do that says so
// (driver.InstanceBooter).
//
// It may import rackd/driver, rackd/driver/bringup, rackd/driver/direct (whose agent
// cleans and services these machines too), rackd/driver/instancefiles and protocol.
package ramdisk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
)

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
func (Interface) InstanceFields() []string {
	return append(instancefiles.Fields(), instancefiles.Sentinel)
}

// Ignored implements driver.InstanceIgnorer: all that is read is booted.
func (Interface) Ignored(*node.Document) map[string]string { return nil }

// Validate asks for nothing: what can be booted is the boot interface's to say.
func (Interface) Validate(*node.Document) error { return nil }

// ValidateWith asks for a boot interface that boots what the instance brings, and checks what the instance's capabilities ask
// for. The words of the first refusal are Ironic's.
func (Interface) ValidateWith(h *driver.Hardware, n *node.Document) error {
	b, can := h.Boot().(driver.InstanceBooter)
	if !can {
		return driver.Refuse("Invalid configuration: The boot interface must have the `ramdisk_boot` capability. You are using an incompatible boot interface. Node %s has %q.",
			n.Label(), h.Kinds()["boot"].Name)
	}
	if err := b.ValidateInstanceFiles(n); err != nil {
		return err
	}
	if err := checkDrive(h, n); err != nil {
		return err
	}
	return driver.ValidateInstance(h, n, "ramdisk")
}

// fieldDrive of instance_info says that the node keeps a config drive (driver.Task has it).
const fieldDrive = "configdrive"

// checkDrive refuses a config drive that would not reach the machine: only media bring one to an instance without a disk.
func checkDrive(h *driver.Hardware, n *node.Document) error {
	if drive, _ := n.InstanceInfo[fieldDrive].(string); drive == "" || brings(h.Boot()) {
		return nil
	}
	return noDrive(h, n)
}

func brings(boot driver.Boot) bool {
	r, reads := boot.(driver.InstanceReader)
	return reads && slices.Contains(r.InstanceFields(), fieldDrive)
}

func noDrive(h *driver.Hardware, n *node.Document) error {
	return fmt.Errorf("node %s: instance_info has configdrive, and the boot interface %s brings none to an instance without a disk: choose a boot interface of virtual media, or remove configdrive: %w",
		n.Label(), h.Kinds()["boot"].Name, driver.ErrInvalid)
}

// Supports reports whether the deploy interface "autodetect" is to be this one.
func (Interface) Supports(n *node.Document) bool { return instancefiles.Asked(n) }

// DeploySteps are one: boot the image.
func (i Interface) DeploySteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Abortable: true, Retries: 4, Pause: 5 * time.Second, Run: i.boot}}
}

// Adopts implements driver.Adopter: the network or a medium brings the instance.
func (Interface) Adopts(*node.Document) bool { return true }

// TakeOver makes ready what the instance of an adopted node boots; nothing is told to the machine.
func (Interface) TakeOver(ctx context.Context, t *driver.Task) error {
	return fetch(ctx, t)
}

// fetch notes which files the instance boots, where rackd is to serve them.
func fetch(ctx context.Context, t *driver.Task) error {
	if _, serves := t.Hardware.Boot().(driver.NetworkBooter); serves {
		return instancefiles.Fetch(ctx, t)
	}
	if m, makes := t.Hardware.Boot().(driver.InstanceMediumMaker); makes {
		return m.ReadyInstance(ctx, t)
	}
	return instancefiles.Forget(t)
}

func (i Interface) boot(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if _, can := t.Hardware.Boot().(driver.InstanceBooter); !can {
		return driver.Outcome{}, fmt.Errorf("boot the image of an instance: %w", driver.Unsupported(t.Node, "boot", "ramdisk deploys"))
	}
	instancefiles.TellAgain(t)
	if err := i.power.Instance(ctx, t, false, i.down); err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Phase("reboot", "into the instance's image, boot mode "+t.Node.BootMode())
	return driver.Done(), nil
}

// down brings the instance's files and switches the machine off.
func (i Interface) down(ctx context.Context, t *driver.Task) error {
	if !brings(t.Hardware.Boot()) { // the request may have brought a drive after the node was judged
		if drive, err := t.ConfigDrive(ctx); err != nil {
			return err
		} else if drive != "" {
			return noDrive(t.Hardware, t.Node)
		}
	}
	// Before the machine is touched. A rebuild that fails here leaves the instance of before, which is to boot its own files again.
	apart, give := instancefiles.Apart(t)
	if err := fetch(ctx, apart); err != nil {
		return err
	}
	if !t.StaysOn() {
		if err := i.power.Off(ctx, t); err != nil {
			return err
		}
	} else if _, err := t.Hardware.Power().PowerState(ctx, t.Node); err != nil {
		return fmt.Errorf("read the power state before the instance's boot is prepared: %w", err)
	}
	// Not later: the checkpoint that Prepares saves has to hold the files before the first write to the BMC, for the rackd that ends the flow
	// takes back what they name. So a BMC that dies between the read above and that write leaves the new files noted for a machine that
	// stays on. Only the write itself would tell.
	if err := give(); err != nil {
		return err
	}
	// A rackd may die once a medium is in a drive. The rackd that ends the flow then takes it out.
	if err := driver.Prepares(ctx, t); err != nil {
		return err
	}
	return driver.SetSecureBoot(ctx, t, true)
}
