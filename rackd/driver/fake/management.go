package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

type management struct{ base }

// bootDevices are those that a fake machine can boot from.
var bootDevices = []driver.BootDevice{driver.BootPXE, driver.BootDisk, "cdrom", "bios", "safe", "wanboot", "iscsiboot", "floppy", "uefihttp"}

func (m management) SupportedBootDevices(ctx context.Context, n *node.Document) ([]driver.BootDevice, error) {
	err := m.use(ctx, n, "supported_boot_devices", func(*machine) {})
	return slices.Clone(bootDevices), err
}

func (m management) BootDevice(ctx context.Context, n *node.Document) (d ask.BootDevice, err error) {
	err = m.use(ctx, n, "boot_device", func(k *machine) {
		persistent := !k.Once
		d = ask.BootDevice{Device: string(cmp.Or(k.Device, driver.BootDisk)), Persistent: &persistent}
	})
	return d, err
}

func (m management) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, d driver.BootDevice, persistent bool) error {
	if !slices.Contains(bootDevices, d) {
		return fmt.Errorf("node %s: a fake machine has no boot device %q: %w", n.Label(), d, driver.ErrInvalid)
	}
	already := func(k *machine) bool { return cmp.Or(k.Device, driver.BootDisk) == d && k.Once == !persistent }
	return m.changeUnless(ctx, f, n, "set_boot_device", already, func(s *state) { s.Device, s.Once = d, !persistent })
}

func (m management) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = m.use(ctx, n, "boot_mode", func(k *machine) { mode = cmp.Or(k.Mode, n.BootMode()) })
	return mode, err
}

func (m management) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	if mode != "uefi" && mode != "bios" {
		return fmt.Errorf("node %s: boot mode %q: give uefi or bios: %w", n.Label(), mode, driver.ErrInvalid)
	}
	already := func(k *machine) bool { return cmp.Or(k.Mode, n.BootMode()) == mode }
	return m.changeUnless(ctx, f, n, "set_boot_mode", already, func(s *state) { s.Mode = mode })
}

func (m management) SecureBoot(ctx context.Context, n *node.Document) (on bool, err error) {
	err = m.use(ctx, n, "secure_boot", func(k *machine) { on = k.SecureBoot })
	return on, err
}

func (m management) SetSecureBoot(ctx context.Context, f driver.Fence, n *node.Document, on bool) error {
	already := func(k *machine) bool { return k.SecureBoot == on }
	return m.changeUnless(ctx, f, n, "set_secure_boot", already, func(s *state) { s.SecureBoot = on })
}

// Identity tells UUID and serial number where driver_info has them: programs that play the machine's ramdisk tell their own.
func (m management) Identity(ctx context.Context, n *node.Document) (driver.Identity, error) {
	err := m.use(ctx, n, "identity", func(*machine) {})
	return driver.Identity{UUID: n.DriverString("fake_system_uuid"), Manufacturer: "Ironyard", Model: "fake machine", Serial: n.DriverString("fake_serial_number")}, err
}

func (m management) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return m.write(ctx, f, n, "inject_nmi", func(k *machine) { k.nmis++ })
}

// Health is what driver_info says, else OK.
func (m management) Health(ctx context.Context, n *node.Document) (health string, err error) {
	err = m.use(ctx, n, "health", func(*machine) { health = cmp.Or(n.DriverString("fake_health"), hardware.OK) })
	if err == nil && !slices.Contains([]string{hardware.OK, hardware.Warning, hardware.Critical}, health) {
		err = fmt.Errorf("node %s: driver_info fake_health is %q: give OK, Warning or Critical: %w", n.Label(), health, driver.ErrInvalid)
	}
	return health, err
}

// indicators are the lights of a fake machine, by the names that Ironic's has. They are on until
// somebody switches them; nobody can switch that of the chassis.
var indicators = []hardware.Indicator{
	{Name: "led-0", Component: "chassis", ReadOnly: true, States: []string{"off", "on"}},
	{Name: "led", Component: "system", States: []string{"blinking", "off", "on"}},
}

func indicator(n *node.Document, component, name string) (hardware.Indicator, error) {
	i := slices.IndexFunc(indicators, func(k hardware.Indicator) bool { return k.Component == component && k.Name == name })
	if i < 0 {
		return hardware.Indicator{}, fmt.Errorf("node %s: a fake machine has no indicator %q on its %q: %w", n.Label(), name, component, driver.ErrInvalid)
	}
	return indicators[i], nil
}

func (m management) Indicators(ctx context.Context, n *node.Document) ([]hardware.Indicator, error) {
	err := m.use(ctx, n, "indicators", func(*machine) {})
	return slices.Clone(indicators), err
}

func (m management) Indicator(ctx context.Context, n *node.Document, component, name string) (light string, err error) {
	if _, err := indicator(n, component, name); err != nil {
		return "", err
	}
	err = m.use(ctx, n, "indicator", func(k *machine) { light = cmp.Or(k.Indicators[name+"@"+component], "on") })
	return light, err
}

func (m management) SetIndicator(ctx context.Context, f driver.Fence, n *node.Document, component, name, light string) error {
	led, err := indicator(n, component, name)
	if err != nil {
		return err
	}
	if led.ReadOnly || !slices.Contains(led.States, light) {
		return fmt.Errorf("node %s: indicator %s of the %s cannot be set to %q: %w", n.Label(), name, component, light, driver.ErrInvalid)
	}
	return m.change(ctx, f, n, "set_indicator", func(s *state) { put(&s.Indicators, name+"@"+component, light) })
}

func (m management) Media(ctx context.Context, n *node.Document) (list []hardware.Media, err error) {
	err = m.use(ctx, n, "virtual_media", func(k *machine) {
		for _, t := range hardware.MediaTypes {
			list = append(list, hardware.Media{Types: []string{t}, Inserted: k.Media[t] != "", Image: k.Media[t]})
		}
	})
	return list, err
}

func (m management) AttachMedia(ctx context.Context, f driver.Fence, n *node.Document, mediaType, url string) error {
	return m.change(ctx, f, n, "attach_virtual_media", func(s *state) { put(&s.Media, mediaType, url) })
}

func (m management) EjectImage(ctx context.Context, f driver.Fence, n *node.Document, mediaType string, meant func(image string) bool) error {
	return m.change(ctx, f, n, "detach_virtual_media", func(s *state) {
		if image, in := s.Media[mediaType]; in && meant(image) {
			delete(s.Media, mediaType)
		}
	})
}

func (m management) DetachMedia(ctx context.Context, f driver.Fence, n *node.Document, types []string) error {
	return m.change(ctx, f, n, "detach_virtual_media", func(s *state) {
		for t := range s.Media {
			if len(types) == 0 || slices.Contains(types, t) {
				delete(s.Media, t)
			}
		}
	})
}
