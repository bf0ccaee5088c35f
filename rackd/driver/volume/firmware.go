package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Facts of a wait for firmware that is to show its volume as a boot device: since when; that the BMC has shown a start which was not
// past its firmware; and since when it shows one that is.
const (
	factWaits = "iscsi_device_since"
	factBegan = "iscsi_start_seen"
	factPast  = "iscsi_firmware_past_since"
)

// byFirmware is how long firmware may take from power on until it has logged in and shows a boot device. Large servers take most of it. It
// counts where the BMC does not tell how far the firmware is. Where it tells, shortly is how long its boot options may lag behind that.
const (
	byFirmware = 10 * time.Minute
	shortly    = 2 * time.Minute
)

// ValidateFirmware says why the machine's own firmware cannot attach the node's volume: its management interface sets no target, or
// there is more than one volume.
func ValidateFirmware(h *driver.Hardware, n *node.Document) error {
	m, can := h.Management().(driver.ISCSIBooter)
	if !can {
		return driver.Unsupported(n, "management", "set_iscsi_boot_target")
	}
	d, err := Read(n)
	if err != nil {
		return err
	}
	if len(d.List) > 1 {
		return fmt.Errorf("node %s has %d volume targets, and its firmware attaches the one that it boots: its own system attaches the others. Remove them, or choose the boot interface ipxe: %w", n.Label(), len(d.List), driver.ErrInvalid)
	}
	target, err := forFirmware(n, d.List[0], m.ISCSIRoom())
	if err != nil {
		return err
	}
	return target.Check(n)
}

// forFirmware is a volume as firmware with that room attaches it, by its first two ways.
func forFirmware(n *node.Document, d Disk, room driver.ISCSIRoom) (driver.ISCSITarget, error) {
	target := d.Paths[0]
	if len(d.Paths) > 1 {
		second := d.Paths[1]
		target.Second = driver.ISCSIPath{Host: second.Host, Port: second.Port, IQN: second.IQN, LUN: second.LUN}
	}
	if len(d.Paths) > max(room.Paths, 1) && room.Paths > 1 {
		return target, driver.Refuse("Failed to get iSCSI target info for node %s. Error: the properties name %d portals, and this machine's firmware tries %d: name fewer, or let iPXE attach the volume", n.UUID, len(d.Paths), room.Paths)
	}
	return target, room.Fits(target, n)
}

// AdoptFirmware returns an error where the machine's firmware attaches another volume than the node's, or none. It only reads.
func AdoptFirmware(ctx context.Context, t *driver.Task) error {
	m, can := t.Hardware.Management().(driver.ISCSIBooter)
	if !can {
		return driver.Unsupported(t.Node, "management", "get_iscsi_boot_target")
	}
	d, err := Read(t.Node)
	if err != nil {
		return err
	}
	has, err := m.ISCSIBoot(ctx, t.Node)
	if err != nil {
		return fmt.Errorf("read which volume the firmware attaches: %w", err)
	}
	var found []string
	for _, h := range has {
		for _, p := range d.List[0].Paths {
			if strings.EqualFold(h.IQN, p.IQN) && h.LUN == p.LUN {
				return nil
			}
		}
		found = append(found, fmt.Sprintf("%.80s, LUN %d", h.IQN, h.LUN))
	}
	want := d.List[0].Paths[0]
	return fmt.Errorf("node %s: its instance is the volume %s, LUN %d, and its firmware attaches %s. An adoption tells a machine nothing: set the target in the firmware, or the node's volume target right, and adopt it again: %w",
		t.Node.Label(), want.IQN, want.LUN, cmp.Or(strings.Join(found, "; "), "none"), driver.ErrInvalid)
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
	target, err := forFirmware(t.Node, d.List[0], m.ISCSIRoom())
	if err != nil {
		return err
	}
	if err := driver.Settle(func() error { return m.SetISCSIBoot(ctx, t.Fence, t.Node, target) }); err != nil {
		return fmt.Errorf("give the firmware its volume: %w", err)
	}
	ways := fmt.Sprintf("the firmware attaches %s at %s, port %d", target.IQN, target.Host, target.Port)
	if other := target.Second; other != (driver.ISCSIPath{}) {
		ways += fmt.Sprintf(", or else %s at %s, port %d", other.IQN, other.Host, other.Port)
	}
	t.Record.Phase("iSCSI boot", ways)
	switch err := setDevice(ctx, t); {
	case errors.Is(err, driver.ErrUnsupported):
		t.Facts[factWaits] = time.Now().UTC().Format(time.RFC3339)
		delete(t.Facts, factBegan)
		delete(t.Facts, factPast)
		if started(ctx, t) == driver.InFirmware { // it is off: what is told of the next start is not of the one before
			t.Facts[factBegan] = "yes"
		}
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
	// Before the boot options: those of a start that is past its firmware are complete, or will be shortly.
	past, err := pastSince(ctx, t)
	if err != nil {
		return false, false, err
	}
	switch err := setDevice(ctx, t); {
	case err == nil:
		forget(t)
		return false, true, nil
	case !errors.Is(err, driver.ErrUnsupported):
		return false, false, err
	case !past.IsZero() && t.Since(past) >= shortly:
		return false, false, notLoggedIn(t, fmt.Sprintf("for %s its BMC says that it looks for a system, and it", shortly), err)
	case t.Since(since) >= byFirmware:
		return false, false, notLoggedIn(t, fmt.Sprintf("%s after power on it", byFirmware), err)
	}
	return false, false, nil
}

// forget drops what is known of a wait.
func forget(t *driver.Task) {
	for _, fact := range []string{factWaits, factBegan, factPast} {
		delete(t.Facts, fact)
	}
}

// started is how far the machine's start has come. A BMC that does not answer to that does not tell: what is asked of it next says so.
func started(ctx context.Context, t *driver.Task) driver.Start {
	m, tells := t.Hardware.Management().(driver.StartTeller)
	if !tells {
		return driver.StartUntold
	}
	far, err := m.Start(ctx, t.Node)
	if err != nil {
		return driver.StartUntold
	}
	return far
}

// pastSince is since when the machine's start is past its firmware; zero where it is not, or the BMC does not tell. What a BMC shows may
// be of the start before, until it has shown one that was not.
func pastSince(ctx context.Context, t *driver.Task) (since time.Time, err error) {
	switch started(ctx, t) {
	case driver.InFirmware:
		t.Facts[factBegan] = "yes"
		delete(t.Facts, factPast) // the firmware has reset the machine
	case driver.PastFirmware:
		if t.Facts[factBegan] == "" {
			return since, nil
		}
		if t.Facts[factPast] == "" {
			t.Facts[factPast] = time.Now().UTC().Format(time.RFC3339)
		}
	}
	if text := t.Facts[factPast]; text != "" {
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return since, fmt.Errorf("node %s: the fact %s is %q: %w", t.Node.Label(), factPast, text, err)
		}
	}
	return since, nil
}

// notLoggedIn says what an operator has to look at.
func notLoggedIn(t *driver.Task, how string, err error) error {
	look, unread := Look(t.Node)
	if unread != nil {
		return errors.Join(err, unread)
	}
	return fmt.Errorf("node %s: the firmware did not log in to the iSCSI target: %s shows no iSCSI disk. %s: %w", t.Node.Label(), how, look, err)
}

// Look says what an operator has to look at where a machine's firmware does not log in to the volume of its node. Of secrets it says the
// names.
func Look(n *node.Document) (string, error) {
	d, err := Read(n)
	if err != nil {
		return "", err
	}
	if len(d.List) == 0 {
		return "", fmt.Errorf("node %s has no volume target: %w", n.Label(), driver.ErrInvalid)
	}
	one := d.List[0].Paths[0]
	var look []string
	for _, p := range d.List[0].Paths {
		look = append(look, fmt.Sprintf("whether the machine reaches target_portal %s, and that is a portal of target_iqn %s", net.JoinHostPort(p.Host, strconv.Itoa(p.Port)), p.IQN))
	}
	if one.Initiator != "" {
		look = append(look, fmt.Sprintf("whether the target lets in the initiator %s, which a volume connector of type iqn names", one.Initiator))
	} else {
		look = append(look, "whether the target lets in the name that the firmware has, for the node has no volume connector of type iqn")
	}
	switch {
	case one.Mutual():
		look = append(look, fmt.Sprintf("whether auth_username %s and auth_password, and %s %s and %s, are those of the target's CHAP", one.User, mutualUser, one.TargetUser, mutualSecret))
	case one.User != "":
		look = append(look, fmt.Sprintf("whether auth_username %s and auth_password are those of the target's CHAP", one.User))
	default:
		look = append(look, "whether the target asks for CHAP, for which auth_username and auth_password are missing")
	}
	return fmt.Sprintf("Look, in this order, %s. The target's own log may say why", strings.Join(look, "; ")), nil
}

// ClearFirmware takes the volume away from the machine's firmware, if a flow or a request may have given it one. A volume may have left
// the node since, after a deploy that has failed. In maintenance the storage interface may have changed, too: then the boot device that was
// set tells of the volume.
func ClearFirmware(ctx context.Context, t *driver.Task) error {
	forget(t)
	if !attaches(t.Node) && !t.BootWasSet(driver.BootISCSI) {
		return nil
	}
	return driver.ClearISCSI(ctx, t)
}

// ClearFormer takes away a volume that the firmware was given while the node had another boot interface, or boot mode. The firmware
// attaches none of the node's volumes now.
func ClearFormer(ctx context.Context, t *driver.Task) error {
	forget(t)
	if !t.BootWasSet(driver.BootISCSI) {
		return nil
	}
	return driver.ClearISCSI(ctx, t)
}
