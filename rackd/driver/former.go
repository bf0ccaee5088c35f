package driver

import (
	"context"
	"errors"
	"fmt"
)

// In maintenance the interfaces of a node may change, as in Ironic, also while its instance is there. The boot interface of now then
// knows nothing of what that of before has told the machine. The device that was set for all starts tells: none of an instance is left for
// the next one.

// takeBackFormer takes back what the boot interface of before has the machine boot at each start, once the one of now has cleaned up.
func takeBackFormer(ctx context.Context, t *Task) error {
	switch last := t.LastBootSet(); last {
	case BootISCSI:
		return errors.Join(ClearISCSI(ctx, t), diskForGood(ctx, t, last))
	case bootCD, BootUSB:
		return diskForGood(ctx, t, last)
	case BootHTTP:
		return withoutURL(ctx, t)
	}
	return nil
}

// bootCD is the boot device of an instance on a medium.
const bootCD BootDevice = "cdrom"

// diskForGood makes the disk the boot device.
func diskForGood(ctx context.Context, t *Task, instead BootDevice) error {
	err := Settle(func() error { return t.Hardware.Management().SetBootDevice(ctx, t.Fence, t.Node, BootDisk, true) })
	t.Keep()
	if errors.Is(err, ErrUnsupported) {
		t.Record.Phase("boot device", fmt.Sprintf("not set to %s, and %s, which the machine had for its instance, may be left: %v", BootDisk, instead, err))
		return nil
	}
	if err == nil {
		t.BootSet(BootDisk)
	}
	return err
}

// withoutURL has firmware that loads a URL at each start load what DHCP tells, which is nothing. Where that is so nothing is written.
func withoutURL(ctx context.Context, t *Task) error {
	h, can := t.Hardware.Management().(HTTPBooter)
	if !can {
		return nil
	}
	err := Settle(func() error { return h.SetHTTPBoot(ctx, t.Fence, t.Node, "", true) })
	t.Keep()
	if errors.Is(err, ErrUnsupported) {
		return nil
	}
	return err
}

// ClearISCSI takes the volume from the machine's firmware, and says in the history what is left of it.
func ClearISCSI(ctx context.Context, t *Task) error {
	m, can := t.Hardware.Management().(ISCSIBooter)
	if !can {
		if t.LastBootSet() == BootISCSI {
			t.Record.Phase("not cleaned up", fmt.Sprintf("the volume that the machine's firmware attaches, with its account: the management interface %s sets no volumes. Take it from the firmware by hand, or change its secret at the target",
				t.Hardware.Kinds()["management"].Name))
		}
		return nil
	}
	err := Settle(func() error { return m.ClearISCSIBoot(ctx, t.Fence, t.Node) })
	switch {
	case errors.Is(err, ErrUnsupported): // it never had one
		return nil
	case errors.Is(err, ErrTargetKept): // asking once more changes nothing, and the machine is to be free
		t.Record.Phase("iSCSI boot", "the firmware attaches no volume any more: "+err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("take the volume from the firmware: %w", err)
	}
	t.Record.Phase("iSCSI boot", "the firmware attaches no volume any more")
	return nil
}
