package ribcl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// devices are RIBCL's names of boot devices.
var devices = map[driver.BootDevice]string{driver.BootPXE: "NETWORK", driver.BootDisk: "HDD", "cdrom": "CDROM"}

// deviceOf is a boot device by RIBCL's name.
func deviceOf(name string) string {
	for d, called := range devices {
		if strings.EqualFold(called, name) {
			return string(d)
		}
	}
	return ""
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}

// SupportedBootDevices implements driver.Management.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return []driver.BootDevice{driver.BootPXE, driver.BootDisk, "cdrom"}, nil
}

// BootDevice reads the device of the next start, else the first of the order.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, nil, n, "read the boot device", func(t *turn) error {
		device, persistent, err := t.bootDevice()
		if err == nil && device != "" {
			found = ask.BootDevice{Device: device, Persistent: &persistent}
		}
		return err
	})
	return found, err
}

func (t *turn) bootDevice() (device string, persistent bool, err error) {
	once, err := t.read(server, "GET_ONE_TIME_BOOT", nil, "ONE_TIME_BOOT")
	if err != nil {
		return "", false, err
	}
	if kind := first(once.value("BOOT_TYPE"), once.value("DEVICE")); kind != "" && !strings.EqualFold(kind, normalBoot) {
		return deviceOf(kind), false, nil
	}
	order, err := t.bootOrder()
	if err != nil || len(order) == 0 {
		return "", false, err
	}
	return order[0].kind(), true, nil
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// entry is an entry of the boot order. In BIOS mode its value is a kind of device; in UEFI mode a boot option with a description.
type entry struct{ value, description string }

// kind is the boot device that an entry stands for.
func (e entry) kind() string {
	if e.description == "" {
		return deviceOf(e.value)
	}
	is := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(e.description, w) })
	}
	switch {
	case is("iLO Virtual USB CD"):
		return "cdrom"
	case is("iSCSI"):
		return "iscsiboot"
	case is("NIC", "PXE"):
		return "pxe"
	case is("Logical Drive", "HDD", "Storage", "LogVol"):
		return "disk"
	}
	return ""
}

func (t *turn) bootOrder() (list []entry, err error) {
	e, err := t.read(server, "GET_PERSISTENT_BOOT", nil, "PERSISTENT_BOOT")
	if err != nil {
		return nil, err
	}
	for _, one := range e.all("DEVICE") {
		list = append(list, entry{one.attribute("value"), one.attribute("DESCRIPTION")})
	}
	return list, nil
}

// SetBootDevice implements driver.Management, and reads back.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	name := devices[device]
	if name == "" {
		return fmt.Errorf("node %s: RIBCL knows no boot device %q: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, f, n, fmt.Sprintf("set the boot device to %s", device), func(t *turn) error {
		is, lasts, err := t.bootDevice()
		if err != nil {
			return err
		}
		if is == string(device) && lasts == persistent {
			return nil
		}
		if persistent {
			err = t.putFirst(string(device), name, lasts)
		} else {
			_, err = t.write(server, "SET_ONE_TIME_BOOT", map[string]string{"value": name}, "")
		}
		if err != nil {
			return err
		}
		is, lasts, err = t.bootDevice()
		if err == nil && (is != string(device) || lasts != persistent) {
			err = fmt.Errorf("it accepted the boot device, and shows %q, persistent %t", is, lasts)
		}
		return err
	})
}

// ClearOneStart implements driver.OneStartClearer.
func (d *Driver) ClearOneStart(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, f, n, "take back the boot device of one start", func(t *turn) error {
		is, lasts, err := t.bootDevice()
		if err != nil || lasts || is == "" {
			return err
		}
		if _, err := t.write(server, "SET_ONE_TIME_BOOT", map[string]string{"value": normalBoot}, ""); err != nil {
			return err
		}
		if now, lasts, err := t.bootDevice(); err != nil || lasts || now == "" {
			return err
		}
		return fmt.Errorf("it accepted a normal start, and shows %q for one start as before: look at the iLO", is)
	})
}

// normalBoot is a start without a device for that one alone.
const normalBoot = "NORMAL"

// putFirst puts the entries of a device before the others, and takes an override for one start away.
func (t *turn) putFirst(device, name string, noOverride bool) error {
	order, err := t.bootOrder()
	if err != nil {
		return err
	}
	var values, others []string
	for _, e := range order {
		if e.kind() == device {
			values = append(values, e.value)
		} else {
			others = append(others, e.value)
		}
	}
	uefi := len(order) > 0 && order[0].description != ""
	switch {
	case len(values) == 0 && uefi:
		return fmt.Errorf("'%s' is not configured as boot device on this system: %w", name, driver.ErrUnsupported)
	case len(values) == 0:
		values = []string{name}
	}
	if len(order) == 0 || order[0].value != values[0] {
		var body strings.Builder
		for _, v := range append(values, others...) {
			fmt.Fprintf(&body, "<DEVICE value=\"%s\"/>", escape(v))
		}
		if _, err := t.write(server, "SET_PERSISTENT_BOOT", nil, body.String()); err != nil {
			return err
		}
	}
	if noOverride {
		return nil
	}
	_, err = t.write(server, "SET_ONE_TIME_BOOT", map[string]string{"value": normalBoot}, "")
	return err
}

// The boot modes of RIBCL.
var modes = map[string]string{"uefi": "UEFI", "bios": "LEGACY"}

// BootMode reads the mode of the next start.
func (d *Driver) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = d.with(ctx, nil, n, "read the boot mode", func(t *turn) (err error) { mode, err = t.bootMode(); return err })
	return mode, err
}

func (t *turn) bootMode() (string, error) {
	e, err := t.read(server, "GET_PENDING_BOOT_MODE", nil, "GET_PENDING_BOOT_MODE")
	if err != nil {
		return "", err
	}
	is := e.value("BOOT_MODE")
	for mode, called := range modes {
		if strings.EqualFold(is, called) {
			return mode, nil
		}
	}
	return "", fmt.Errorf("it reports the boot mode %.20q: %w", is, driver.ErrUnsupported)
}

// SetBootMode sets the mode of the next start, and reads back.
func (d *Driver) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	want := modes[mode]
	if want == "" {
		return fmt.Errorf("node %s: The given boot mode '%s' is not supported.: %w", n.Label(), mode, driver.ErrInvalid) // Ironic's words
	}
	return d.with(ctx, f, n, "set the boot mode to "+mode, func(t *turn) error {
		is, err := t.bootMode()
		if err != nil || is == mode {
			return err
		}
		if _, err := t.write(server, "SET_PENDING_BOOT_MODE", map[string]string{"value": want}, ""); err != nil {
			return err
		}
		if is, err = t.bootMode(); err == nil && is != mode {
			err = fmt.Errorf("it accepted the boot mode and shows %s", is)
		}
		return err
	})
}

// InjectNMI refuses: there is no such command.
func (d *Driver) InjectNMI(_ context.Context, _ driver.Fence, n *node.Document) error {
	return fmt.Errorf("node %s: an iLO that speaks RIBCL only injects no NMI: %w", n.Label(), driver.ErrUnsupported)
}
