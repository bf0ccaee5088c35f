package redfish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Redfish knows no boot device of the name iscsiboot. Firmware that has logged in to a target shows the disk as a boot option. Its
// device path is one of iSCSI (UEFI 2.10, section 10.3.4.21). Management puts it first in the boot order.

// optionOrder is a machine's boot order, with the option of its iSCSI disk.
type optionOrder struct {
	order    []string
	override string // whether an override goes before it
	iscsi    string // reference of the option, empty for none
}

// first reports whether the machine boots its iSCSI disk at each start.
func (o optionOrder) first() bool {
	return o.iscsi != "" && len(o.order) > 0 && o.order[0] == o.iscsi && (o.override == "" || o.override == "Disabled")
}

// orderOf reads the boot order of a turn's machine. Firmware shows the option of a target that it had before until it has logged in again:
// where its adapters tell the target, the option has to be of that.
func orderOf(t *Turn, n *node.Document) (o optionOrder, err error) {
	var system struct {
		Boot struct {
			BootOrder                 []string
			BootSourceOverrideEnabled string
			BootOptions               ref
		}
	}
	if err := t.Read(t.System.Path, &system); err != nil {
		return o, err
	}
	o.order, o.override = system.Boot.BootOrder, system.Boot.BootSourceOverrideEnabled
	options, err := listed(t.c, system.Boot.BootOptions.Path)
	if err != nil {
		return o, err
	}
	var names []string
	told := false
	for _, at := range options {
		var option struct{ BootOptionReference, UefiDevicePath string }
		if err := absent(t.Read(at.Path, &option)); err != nil {
			return o, err
		}
		name, is := targetIn(option.UefiDevicePath)
		if !is || !slices.Contains(o.order, option.BootOptionReference) {
			continue
		}
		if !told {
			if names, err = targetNames(t, n); err != nil {
				return o, err
			}
			told = true
		}
		if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			o.iscsi = option.BootOptionReference
			break
		}
	}
	return o, nil
}

// targetIn is the name of the target in a device path of iSCSI.
func targetIn(path string) (name string, is bool) {
	_, rest, is := strings.Cut(path, "iSCSI(")
	if end := strings.IndexAny(rest, ",)"); end >= 0 {
		rest = rest[:end]
	}
	return rest, is
}

// problemsOf is what the BMC says of targets that firmware was not started with; empty where it says nothing.
func problemsOf(t *Turn, n *node.Document) string {
	functions, err := deviceFunctions(t, n)
	if err != nil {
		return "" // it is for people: what is wrong without it is said
	}
	var said []string
	for _, f := range functions {
		for _, m := range f.Settings.Messages[:min(len(f.Settings.Messages), mostMissing)] {
			said = append(said, bmc.Clean(first(m.Message, m.MessageID)))
		}
	}
	if len(said) == 0 {
		return ""
	}
	return ". The BMC says of the settings of its network adapters: " + strings.Join(said, " ")
}

// targetNames are the targets of the machine's adapters; none where they do not tell.
func targetNames(t *Turn, n *node.Document) (names []string, err error) {
	functions, err := deviceFunctions(t, n)
	if errors.Is(err, driver.ErrUnsupported) {
		return nil, nil
	}
	for _, f := range functions {
		if target, on := f.target(); on {
			names = append(names, target.IQN)
		}
	}
	return names, err
}

// setISCSIDevice makes the iSCSI disk the first of the boot order, and reads back. It is for good.
func (d *Driver) setISCSIDevice(ctx context.Context, f driver.Fence, n *node.Document, persistent bool) error {
	if !persistent {
		return fmt.Errorf("node %s: Redfish boots an iSCSI disk by the boot order, which is for good and not for one boot: %w", n.Label(), driver.ErrUnsupported)
	}
	err := d.Turn(ctx, f, n, "set the boot device to iscsiboot", func(t *Turn) error {
		o, err := orderOf(t, n)
		switch {
		case err != nil:
			return err
		case o.iscsi == "":
			return fmt.Errorf("%s%s: %w", "No UEFI iSCSI bootable device found on system", problemsOf(t, n), driver.ErrUnsupported)
		case o.first():
			return nil
		}
		order := append([]string{o.iscsi}, slices.DeleteFunc(slices.Clone(o.order), func(s string) bool { return s == o.iscsi })...)
		boot := map[string]any{"BootOrder": order}
		if o.override != "" && o.override != "Disabled" {
			boot["BootSourceOverrideEnabled"] = "Disabled"
		}
		if _, err := t.Change(t.System.Path, map[string]any{"Boot": boot}); err != nil {
			return err
		}
		now, err := orderOf(t, n)
		if err != nil {
			return fmt.Errorf("read the boot order back: %w", err)
		}
		if !now.first() {
			return fmt.Errorf("it accepted the boot order %s, and shows %s with an override that is %q", strings.Join(order, ", "), strings.Join(now.order, ", "), now.override)
		}
		return nil
	})
	if err == nil {
		d.again.set(n, "")
	}
	return err
}

// iscsiDevice reads whether a machine whose boot device was set to iscsiboot has it still. Others are not asked.
func (d *Driver) iscsiDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	if n.BootSet != string(driver.BootISCSI) {
		return found, nil
	}
	err = d.Turn(ctx, nil, n, "read the boot device", func(t *Turn) error {
		o, err := orderOf(t, n)
		if err == nil && o.first() {
			yes := true
			found = ask.BootDevice{Device: string(driver.BootISCSI), Persistent: &yes}
		}
		return err
	})
	return found, err
}

// pastFirmware are the states of a start in which the firmware has initialized the machine.
var pastFirmware = append([]schemas.BootProgressTypes{schemas.SystemHardwareInitializationCompleteBootProgressTypes, schemas.SetupEnteredBootProgressTypes}, afterFirmware...)

// Start implements driver.StartTeller. A state that is the vendor's own says nothing.
func (d *Driver) Start(ctx context.Context, n *node.Document) (far driver.Start, err error) {
	err = d.Turn(ctx, nil, n, "read how far its start has come", func(t *Turn) error {
		switch last := t.System.BootProgress.LastState; {
		case slices.Contains(pastFirmware, last):
			far = driver.PastFirmware
		case last != "" && last != schemas.OEMBootProgressTypes:
			far = driver.InFirmware
		}
		return nil
	})
	return far, err
}
