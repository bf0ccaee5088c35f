package asrockrack

import (
	"context"

	"github.com/bmc-toolbox/common"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

// Management is the management interface. The order of boot devices is that of the machine's firmware, as with noop: the provider has no
// word for it.
type Management struct {
	none.Management
	Driver *Driver
}

// Properties names the fields that are read, in driver_info.
func (m Management) Properties() map[string]string { return m.Driver.Properties() }

// Validate checks driver_info.
func (m Management) Validate(n *node.Document) error { return m.Driver.Validate(n) }

// LocatesBMC implements driver.Located.
func (Management) LocatesBMC() {}

// inventory reads what the provider tells of the machine. Sensors that cannot be read cost its health alone.
func (s *session) inventory(ctx context.Context) (*common.Device, error) {
	device, err := s.api.Inventory(ctx)
	if err != nil {
		return nil, s.wire.sorted(err)
	}
	return device, nil
}

// device reads it for a node.
func (d *Driver) device(ctx context.Context, n *node.Document, doing string) (device *common.Device, err error) {
	err = d.with(ctx, nil, n, doing, func(s *session) (err error) { device, err = s.inventory(ctx); return err })
	return device, err
}

// Identity reads who made the board, its model and its serial number. It has no UUID here.
func (m Management) Identity(ctx context.Context, n *node.Document) (driver.Identity, error) {
	device, err := m.Driver.device(ctx, n, "read the identity")
	if err != nil {
		return driver.Identity{}, err
	}
	return driver.Identity{Manufacturer: device.Vendor, Model: device.Model, Serial: device.Serial}, nil
}

// DetectVendor implements driver.VendorDetector.
func (m Management) DetectVendor(ctx context.Context, n *node.Document) (string, error) {
	device, err := m.Driver.device(ctx, n, "detect the vendor")
	if err != nil {
		return "", err
	}
	return device.Vendor, nil
}

// Health is that of the sensors, as the provider judges them: all of them are well, or one of them is not. It is empty where they cannot be
// read.
func (m Management) Health(ctx context.Context, n *node.Document) (string, error) {
	device, err := m.Driver.device(ctx, n, "read the health")
	if err != nil {
		return "", err
	}
	return map[string]string{"OK": hardware.OK, "CRITICAL": hardware.Critical}[device.Status.Health], nil
}
