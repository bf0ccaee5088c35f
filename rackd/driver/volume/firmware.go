package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// factWaits says since when the machine's firmware is waited for that is to show its volume as a boot device.
const factWaits = "iscsi_device_since"

// byFirmware is how long firmware may take from power on until it has logged in and shows a boot device.
const byFirmware = 10 * time.Minute

// ValidateFirmware says why the machine's own firmware cannot attach the node's volume: its management interface sets no target, or
// there is more than one volume.
func ValidateFirmware(h *driver.Hardware, n *node.Document) error {
	if _, can := h.Management().(driver.ISCSIBooter); !can {
		return driver.Unsupported(n, "management", "set_iscsi_boot_target")
	}
	d, err := Read(n)
	if err != nil {
		return err
	}
	if len(d.List) > 1 {
		return fmt.Errorf("node %s has %d volume targets, and its firmware attaches the one that it boots: its own system attaches the others. Remove them, or choose the boot interface ipxe: %w", n.Label(), len(d.List), driver.ErrInvalid)
	}
	return d.List[0].Paths[0].Check(n)
}

// PrepareFirmware gives the firmware of a machine that is off its volume, and makes it the boot device. Some firmware shows the device
// only once it has logged in: then AwaitFirmware goes on when the machine is on.
func PrepareFirmware(ctx context.Context, t *driver.Task) error {
	m, can := t.Hardware.Management().(driver.ISCSIBooter)
	if !can {
		return driver.Unsupported(t.Node, "management", "set_iscsi_boot_target")
	}
	d, err := Read(t.Node)
	if err != nil {
		return err
	}
	target := d.List[0].Paths[0]
	if err := driver.Settle(func() error { return m.SetISCSIBoot(ctx, t.Fence, t.Node, target) }); err != nil {
		return fmt.Errorf("give the firmware its volume: %w", err)
	}
	t.Record.Phase("iSCSI boot", fmt.Sprintf("the firmware attaches %s at %s, port %d", target.IQN, target.Host, target.Port))
	switch err := setDevice(ctx, t); {
	case errors.Is(err, driver.ErrUnsupported):
		t.Facts[factWaits] = time.Now().UTC().Format(time.RFC3339)
		t.Record.Phase("boot device", "the firmware shows its volume once it has logged in: "+err.Error())
		return nil
	case err != nil && !errors.Is(err, driver.ErrFenced):
		return errors.Join(err, ClearFirmware(ctx, t))
	default:
		return err
	}
}

// setDevice is for good, as in Ironic: a volume that boots once is gone at the next reboot.
func setDevice(ctx context.Context, t *driver.Task) error {
	err := driver.Settle(func() error {
		return t.Hardware.Management().SetBootDevice(ctx, t.Fence, t.Node, driver.BootISCSI, true)
	})
	t.Keep()
	if err == nil {
		t.BootSet(driver.BootISCSI)
	}
	return err
}

// AwaitFirmware reports whether the volume is the boot device of a machine that was switched on for its firmware to log in. again: the
// device was set just now, and the machine has to be started again to boot it. An error says that the firmware did not log in.
func AwaitFirmware(ctx context.Context, t *driver.Task) (done, again bool, err error) {
	text := t.Facts[factWaits]
	if text == "" {
		return true, false, nil
	}
	since, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return false, false, fmt.Errorf("node %s: the fact %s is %q: %w", t.Node.Label(), factWaits, text, err)
	}
	switch err := setDevice(ctx, t); {
	case err == nil:
		delete(t.Facts, factWaits)
		return false, true, nil
	case !errors.Is(err, driver.ErrUnsupported):
		return false, false, err
	case t.Since(since) < byFirmware:
		return false, false, nil
	default:
		return false, false, fmt.Errorf("node %s: %s after power on its firmware shows no iSCSI disk, so it has not logged in to the target. Look whether the machine reaches target_portal. Compare target_iqn, auth_username, auth_password and the connector's iqn with the target's: %w", t.Node.Label(), byFirmware, err)
	}
}

// ClearFirmware takes the volume away from the machine's firmware, if a flow or a request may have given it one. A volume may have left
// the node since, after a deploy that has failed. The storage interface cannot change before an undeploy.
func ClearFirmware(ctx context.Context, t *driver.Task) error {
	delete(t.Facts, factWaits)
	m, can := t.Hardware.Management().(driver.ISCSIBooter)
	if !can || !attaches(t.Node) && t.Node.BootSet != string(driver.BootISCSI) {
		return nil
	}
	err := driver.Settle(func() error { return m.ClearISCSIBoot(ctx, t.Fence, t.Node) })
	switch {
	case errors.Is(err, driver.ErrUnsupported): // it never had one
		return nil
	case err != nil:
		return fmt.Errorf("take the volume from the firmware: %w", err)
	}
	t.Record.Phase("iSCSI boot", "the firmware attaches no volume any more")
	return nil
}
