package none

import (
	"context"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Settings implements driver.BIOS.
func (u Unsupported) Settings(_ context.Context, n *node.Document) ([]hardware.Setting, error) {
	return nil, u.Validate(n)
}

// Components implements driver.Firmware.
func (u Unsupported) Components(_ context.Context, n *node.Document) ([]hardware.Component, error) {
	return nil, u.Validate(n)
}

// CheckRAID implements driver.RAID.
func (u Unsupported) CheckRAID(n *node.Document, _ map[string]any) error { return u.Validate(n) }

// LogicalDiskProperties is nil: there is no RAID.
func (Unsupported) LogicalDiskProperties() map[string]string { return nil }

// StartConsole implements driver.Console.
func (u Unsupported) StartConsole(_ context.Context, _ driver.Fence, n *node.Document) error {
	return u.Validate(n)
}

// StopConsole implements driver.Console.
func (u Unsupported) StopConsole(_ context.Context, _ driver.Fence, n *node.Document) error {
	return u.Validate(n)
}

// Console implements driver.Console.
func (u Unsupported) Console(_ context.Context, n *node.Document) (map[string]any, error) {
	return nil, u.Validate(n)
}

// VendorMethods is empty.
func (Unsupported) VendorMethods() []driver.VendorMethod { return nil }

// DriverMethods is empty.
func (Unsupported) DriverMethods() []driver.DriverMethod { return nil }
