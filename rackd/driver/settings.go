package driver

import (
	"context"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
)

// BIOS reads a machine's BIOS settings. Its named steps change them:
// apply_configuration and factory_reset.
type BIOS interface {
	StepSource
	// Settings reads all settings, or ErrUnsupported.
	Settings(ctx context.Context, n *node.Document) ([]hardware.Setting, error)
}

// Firmware reads the versions of a machine's firmware. Its named step update writes
// others.
type Firmware interface {
	StepSource
	// Components reads all components, or ErrUnsupported.
	Components(ctx context.Context, n *node.Document) ([]hardware.Component, error)
}

// RAID makes volumes. Its named steps are create_configuration, delete_configuration
// and apply_configuration.
type RAID interface {
	StepSource
	// CheckRAID says what is wrong with a target configuration, wrapping ErrInvalid, or
	// ErrUnsupported where there is no RAID. It never touches the hardware.
	CheckRAID(n *node.Document, config map[string]any) error
	// LogicalDiskProperties says what the properties of a logical disk mean; nil where
	// there is no RAID.
	LogicalDiskProperties() map[string]string
}
