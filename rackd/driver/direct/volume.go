package direct

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// An instance that is a volume is deployed without a write: the machine is switched off, told to boot its volume, and switched on.

// volumeSteps have the names of Ironic's core steps. The machine is off between them, so that other steps find it so.
func (i Interface) volumeSteps() []driver.Step {
	steps := []driver.Step{
		step("deploy", 100, driver.Repeatable, i.offForVolume),
		step("prepare_instance_boot", 60, driver.Repeatable, i.prepareVolume),
		step("boot_instance", 20, driver.Reattachable, i.bootVolume),
	}
	for at := range steps {
		steps[at].Abortable = true // nothing is half written
	}
	return steps
}

// unwritten refuses what an instance asks for that would have to be written to a disk.
func unwritten(n *node.Document) error {
	if drive, _ := n.InstanceInfo[fieldDrive].(string); drive != "" {
		return fmt.Errorf("node %s: %w", n.Label(), errDrive)
	}
	return nil
}

// errDrive refuses a config drive.
var errDrive = fmt.Errorf("instance_info has configdrive, and the instance boots from a volume, to which rackd writes nothing: put its data into the volume, and remove configdrive: %w", driver.ErrInvalid)

func (i Interface) offForVolume(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	drive, err := t.ConfigDrive(ctx)
	if err != nil {
		return driver.Outcome{}, err
	}
	if drive != "" {
		return driver.Outcome{}, fmt.Errorf("node %s: %w", t.Node.Label(), errDrive)
	}
	if t.StaysOn() {
		return driver.Done(), nil
	}
	return driver.Done(), i.set.Bringup.Off(ctx, t)
}

func (i Interface) prepareVolume(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if _, can := t.Hardware.Boot().(driver.VolumeBooter); !can {
		return driver.Outcome{}, fmt.Errorf("boot a volume: %w", driver.Unsupported(t.Node, "boot", "boot from volume"))
	}
	return driver.Done(), prepareInstance(ctx, t)
}

// factStarted says that the machine was started and its firmware is waited for, or that it is to be started again.
const (
	factStarted = "volume_started"
	startAgain  = "again"
)

// devicePoll is how often the firmware is asked for its boot devices.
const devicePoll = 5 * time.Second

// bootVolume starts the machine. Where its firmware shows the volume as a boot device only now, that is set, and the machine starts again.
func (i Interface) bootVolume(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	switch t.Facts[factStarted] {
	case startAgain: // it runs since before the device was set
		return i.offAgain(ctx, t)
	case "":
		if err := i.set.Bringup.IntoInstance(ctx, t, false); err != nil {
			return driver.Outcome{}, err
		}
		t.Facts[factStarted] = "yes"
	}
	switch done, again, err := volume.AwaitFirmware(ctx, t); {
	case err != nil:
		return driver.Outcome{}, err
	case again:
		t.Record.Phase("boot device", "iscsiboot, which the firmware shows now: the machine is started again")
		if t.StaysOn() {
			delete(t.Facts, factStarted)
			return driver.Wait(devicePoll), t.Record.SaveHandle(ctx, struct{}{}) // another reset than the one before
		}
		t.Facts[factStarted] = startAgain
		return i.offAgain(ctx, t)
	case !done:
		return driver.Wait(devicePoll), nil
	}
	delete(t.Facts, factStarted)
	t.Record.Phase("reboot", "into the instance's volume, boot mode "+t.Node.BootMode())
	return driver.Done(), nil
}

// offAgain switches the machine off, for it to be started again.
func (i Interface) offAgain(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if err := i.set.Bringup.Off(ctx, t); err != nil {
		return driver.Outcome{}, err
	}
	delete(t.Facts, factStarted)
	return driver.Wait(devicePoll), t.Record.SaveHandle(ctx, struct{}{}) // a successor does not switch it off once more
}
