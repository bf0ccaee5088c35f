package irmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Lan is a driver of IPMI, of which the states of older machines are read.
type Lan interface {
	driver.Power
	driver.Management
	driver.OneStartClearer
	driver.VendorDetector
	driver.Sensors
	driver.EventLog
	driver.Indicators
	// PCIDevices lists the machine's, by a command of Fujitsu's.
	PCIDevices(context.Context, *node.Document) ([]driver.PCIDevice, error)
}

// Interface is the power and management interface irmc.
type Interface struct {
	redfish.Management
	scci *SCCI
	lan  Lan
	old  *older
	bios *bmc.Keeping[keptBIOS]
	// firmware is which iRMC a machine has.
	firmware *bmc.Keeping[keptFirmware]
}

// New returns the interface; SCCI and lan serve iRMCs without a Redfish service.
func New(m redfish.Management, s *SCCI, lan Lan) Interface {
	return Interface{m, s, lan, &older{until: map[string]time.Time{}}, newBIOS(), newFirmware()}
}

// older is which iRMCs have no Redfish service. Safe for concurrent use.
type older struct {
	mu    sync.Mutex
	until map[string]time.Time // by account
}

// An iRMC gets Redfish with a firmware, so an answer counts for some time. So many accounts are remembered.
const (
	lasts = time.Hour
	most  = 10000
)

func (o *older) is(account string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Before(o.until[account])
}

func (o *older) learn(account string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.until) >= most {
		clear(o.until)
	}
	o.until[account] = time.Now().Add(lasts)
}

// either runs one of the two, as the node's iRMC speaks.
func (i Interface) either(n *node.Document, modern func() error, old func(n *node.Document) error) error {
	account := i.Management.Account(n)
	if i.old.is(account) {
		return OverLAN().InTheirWords(old(byIPMI(n)))
	}
	err := modern()
	if !errors.Is(err, redfish.ErrNoService) {
		return err
	}
	i.old.learn(account)
	return OverLAN().InTheirWords(old(byIPMI(n)))
}

// Validate implements driver.Interface.
func (i Interface) Validate(n *node.Document) error {
	if err := i.Management.Validate(n); err != nil {
		return err
	}
	_, err := sensorsBy(n)
	return err
}

// PowerState implements driver.Power.
func (i Interface) PowerState(ctx context.Context, n *node.Document) (s driver.PowerState, err error) {
	err = i.either(n, func() (err error) { s, err = i.Management.PowerState(ctx, n); return err }, func(lan *node.Document) (err error) { s, err = i.lan.PowerState(ctx, lan); return err })
	return s, err
}

// SetPower implements driver.Power.
func (i Interface) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	return i.either(n, func() error { return i.Management.SetPower(ctx, f, n, target) }, func(lan *node.Document) error {
		if !slices.Contains(i.PowerTargets(), target) {
			return fmt.Errorf("node %s: an iRMC does not lead to the power state %q: %w", n.Label(), target, driver.ErrUnsupported)
		}
		is, err := i.lan.PowerState(ctx, lan)
		if err != nil {
			return err
		}
		off := is == driver.PowerOff
		switch {
		case target == driver.PowerOn && !off, (target == driver.PowerOff || target == driver.SoftPowerOff) && off:
			return nil
		case off: // a reboot of a machine that is off switches it on
			return i.scci.order(ctx, f, n, fmt.Sprintf("set the power to %q", target), orders[driver.PowerOn])
		}
		return i.scci.order(ctx, f, n, fmt.Sprintf("set the power to %q", target), orders[target])
	})
}

// SupportedBootDevices implements driver.Management.
func (i Interface) SupportedBootDevices(ctx context.Context, n *node.Document) (list []driver.BootDevice, err error) {
	err = i.either(n, func() (err error) { list, err = i.Management.SupportedBootDevices(ctx, n); return err },
		func(lan *node.Document) (err error) { list, err = i.lan.SupportedBootDevices(ctx, lan); return err })
	return list, err
}

// BootDevice implements driver.Management.
func (i Interface) BootDevice(ctx context.Context, n *node.Document) (d ask.BootDevice, err error) {
	err = i.either(n, func() (err error) { d, err = i.Management.BootDevice(ctx, n); return err }, func(lan *node.Document) (err error) { d, err = i.lan.BootDevice(ctx, lan); return err })
	return d, err
}

// SetBootDevice implements driver.Management.
func (i Interface) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, d driver.BootDevice, persistent bool) error {
	return i.either(n, func() error { return i.Management.SetBootDevice(ctx, f, n, d, persistent) }, func(lan *node.Document) error { return i.lan.SetBootDevice(ctx, f, lan, d, persistent) })
}

// ClearOneStart implements driver.OneStartClearer.
func (i Interface) ClearOneStart(ctx context.Context, f driver.Fence, n *node.Document) error {
	return i.either(n, func() error { return i.Management.ClearOneStart(ctx, f, n) }, func(lan *node.Document) error { return i.lan.ClearOneStart(ctx, f, lan) })
}

// BootMode implements driver.Management.
func (i Interface) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = i.either(n, func() (err error) { mode, err = i.Management.BootMode(ctx, n); return err }, func(lan *node.Document) (err error) { mode, err = i.lan.BootMode(ctx, lan); return err })
	return mode, err
}

// SetBootMode implements driver.Management.
func (i Interface) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	return i.either(n, func() error { return i.Management.SetBootMode(ctx, f, n, mode) }, func(lan *node.Document) error { return i.lan.SetBootMode(ctx, f, lan, mode) })
}

// Identity implements driver.Management.
func (i Interface) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = i.either(n, func() (err error) { id, err = i.Management.Identity(ctx, n); return err }, func(lan *node.Document) (err error) { id, err = i.lan.Identity(ctx, lan); return err })
	if n.DriverString(fieldIdentity) == "ignore" {
		id.UUID, id.Serial, id.SKU = "", "", ""
	}
	return id, err
}

// InjectNMI implements driver.Management.
func (i Interface) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return i.either(n, func() error { return i.Management.InjectNMI(ctx, f, n) }, func(*node.Document) error { return i.scci.order(ctx, f, n, "inject an NMI", nmi) })
}

// Observe implements driver.Observer. Of an older machine nothing is told.
func (i Interface) Observe(ctx context.Context, n *node.Document) (o hardware.Observation, err error) {
	err = i.either(n, func() (err error) { o, err = i.Management.Observe(ctx, n); return err }, func(*node.Document) error { return nil })
	return o, err
}

// Kept implements driver.Keeper: of the way that the iRMC is reached by, the backup of its BIOS, and the version of its firmware.
func (i Interface) Kept(n *node.Document) json.RawMessage {
	if k, is := i.lan.(driver.Keeper); is && i.old.is(i.Management.Account(n)) {
		lan := byIPMI(n) // what is kept is no part of driver_info
		return keepsOf(lan, k, i.bios, i.firmware)
	}
	return keepsOf(n, i.Management, i.bios, i.firmware)
}

// NamedSteps lists Redfish's steps, and those of Ironic's iRMC driver.
func (i Interface) NamedSteps(n *node.Document) []driver.Step {
	return append(append(i.Management.NamedSteps(n), i.biosSteps()...), i.firmwareStep())
}
