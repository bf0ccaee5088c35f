package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// devices pairs the boot devices of both sides.
var devices = []struct {
	device driver.BootDevice
	target redfish.BootSourceOverrideTarget
}{
	{driver.BootPXE, redfish.PxeBootSourceOverrideTarget},
	{driver.BootDisk, redfish.HddBootSourceOverrideTarget},
	{"cdrom", redfish.CdBootSourceOverrideTarget},
	{"bios", redfish.BiosSetupBootSourceOverrideTarget},
	{"floppy", redfish.FloppyBootSourceOverrideTarget},
	{"safe", redfish.DiagsBootSourceOverrideTarget},
	{"uefihttp", redfish.UefiHTTPBootSourceOverrideTarget},
}

// modes pairs the boot modes.
var modes = map[string]redfish.BootSourceOverrideMode{
	"uefi": redfish.UEFIBootSourceOverrideMode,
	"bios": redfish.LegacyBootSourceOverrideMode,
}

// allowedTargets are the override targets the BMC lists; nil when it lists none.
// gofish does not read the annotation.
func allowedTargets(s *redfish.ComputerSystem) []redfish.BootSourceOverrideTarget {
	var raw struct {
		Boot struct {
			Targets []redfish.BootSourceOverrideTarget `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
		}
	}
	if json.Unmarshal(s.RawData, &raw) != nil {
		return nil
	}
	return raw.Boot.Targets
}

func supported(s *redfish.ComputerSystem) (list []driver.BootDevice) {
	allowed := allowedTargets(s)
	for _, d := range devices {
		if allowed == nil || slices.Contains(allowed, d.target) {
			list = append(list, d.device)
		}
	}
	return list
}

// read runs look on the node's system.
func (d *Driver) read(ctx context.Context, n *node.Document, doing string, look func(*redfish.ComputerSystem) error) error {
	return d.pool.with(ctx, nil, n, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		return look(s)
	})
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}

// SupportedBootDevices lists the devices the BMC can be told to boot from.
func (d *Driver) SupportedBootDevices(ctx context.Context, n *node.Document) (list []driver.BootDevice, err error) {
	err = d.read(ctx, n, "list the boot devices", func(s *redfish.ComputerSystem) error {
		list = supported(s)
		return nil
	})
	return list, err
}

// BootDevice reads the boot override; without one the device is empty.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.read(ctx, n, "read the boot device", func(s *redfish.ComputerSystem) error {
		persistent := s.Boot.BootSourceOverrideEnabled == redfish.ContinuousBootSourceOverrideEnabled
		if !persistent && s.Boot.BootSourceOverrideEnabled != redfish.OnceBootSourceOverrideEnabled {
			return nil
		}
		for _, d := range devices {
			if d.target == s.Boot.BootSourceOverrideTarget {
				found = ask.BootDevice{Device: string(d.device), Persistent: &persistent}
			}
		}
		return nil
	})
	return found, err
}

// SetBootDevice overrides the boot device for one boot or for good, in the boot
// mode of the node. What is already so is not written.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	i := slices.IndexFunc(devices, func(m struct {
		device driver.BootDevice
		target redfish.BootSourceOverrideTarget
	}) bool {
		return m.device == device
	})
	if i < 0 {
		return fmt.Errorf("node %s: Redfish knows no boot device %q: %w", n.Label(), device, driver.ErrUnsupported)
	}
	want := redfish.Boot{BootSourceOverrideTarget: devices[i].target, BootSourceOverrideEnabled: redfish.OnceBootSourceOverrideEnabled}
	if persistent {
		want.BootSourceOverrideEnabled = redfish.ContinuousBootSourceOverrideEnabled
	}
	doing := fmt.Sprintf("set the boot device to %s", device)
	return d.pool.with(ctx, f, n, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		if allowed := allowedTargets(s); allowed != nil && !slices.Contains(allowed, want.BootSourceOverrideTarget) {
			return fmt.Errorf("it boots from %v, not from %s: %w", allowed, want.BootSourceOverrideTarget, driver.ErrUnsupported)
		}
		// A BMC that does not report the mode does not take it either.
		if is := s.Boot.BootSourceOverrideMode; is != "" && is != modes[n.BootMode()] {
			want.BootSourceOverrideMode = modes[n.BootMode()]
		}
		if s.Boot.BootSourceOverrideTarget == want.BootSourceOverrideTarget &&
			s.Boot.BootSourceOverrideEnabled == want.BootSourceOverrideEnabled && want.BootSourceOverrideMode == "" {
			return nil
		}
		return setBoot(s, want)
	})
}

// BootMode reads the mode of the boot override.
func (d *Driver) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = d.read(ctx, n, "read the boot mode", func(s *redfish.ComputerSystem) error {
		for name, m := range modes {
			if m == s.Boot.BootSourceOverrideMode {
				mode = name
				return nil
			}
		}
		return fmt.Errorf("it does not report the boot mode: %w", driver.ErrUnsupported)
	})
	return mode, err
}

// SetBootMode sets the mode of the boot override, if it is another.
func (d *Driver) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	want, ok := modes[mode]
	if !ok {
		return fmt.Errorf("node %s: boot mode %q: give uefi or bios: %w", n.Label(), mode, driver.ErrInvalid)
	}
	return d.pool.with(ctx, f, n, "set the boot mode to "+mode, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		switch s.Boot.BootSourceOverrideMode {
		case want:
			return nil
		case "":
			return fmt.Errorf("it does not report the boot mode: %w", driver.ErrUnsupported)
		}
		return setBoot(s, redfish.Boot{BootSourceOverrideMode: want})
	})
}

// setBoot writes the boot override. A BMC whose entity tag changed since the read
// (some count every read) is written to once more without it.
func setBoot(s *redfish.ComputerSystem, want redfish.Boot) error {
	err := s.SetBoot(want)
	if code := status(err); code == http.StatusPreconditionFailed || code == http.StatusPreconditionRequired {
		s.DisableEtagMatch(true)
		err = s.SetBoot(want)
	}
	return err
}

// Identity reads UUID, vendor, model, serial number and SKU. Of a BMC that is not to be believed in that it
// tells vendor and model only.
func (d *Driver) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = d.read(ctx, n, "read the identity", func(s *redfish.ComputerSystem) error {
		id = driver.Identity{UUID: s.UUID, Manufacturer: s.Manufacturer, Model: s.Model, Serial: s.SerialNumber, SKU: s.SKU}
		if n.DriverString(fieldIdentity) == "ignore" {
			id.UUID, id.Serial, id.SKU = "", "", ""
		}
		return nil
	})
	return id, err
}
