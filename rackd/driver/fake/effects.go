package fake

import (
	"context"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// change is write where the state changes.
func (b base) change(ctx context.Context, f driver.Fence, n *node.Document, method string, do func(*state)) error {
	return b.write(ctx, f, n, method, func(m *machine) { m.state.change(do) })
}

// changeUnless is change, and does nothing to a machine that is already so.
func (b base) changeUnless(ctx context.Context, f driver.Fence, n *node.Document, method string, already func(*machine) bool, do func(*state)) error {
	return b.writeUnless(ctx, f, n, method, already, func(m *machine) { m.state.change(do) })
}

// observe reports what a step has changed, together with the machine's state.
func (b base) observe(t *driver.Task, o hardware.Observation) {
	o.Kept = management{b}.Kept(t.Node)
	t.Record.Observe(o)
}

// effect is what a named step does to the machine, nil for nothing.
func (b base) effect(name string) func(context.Context, *driver.Task) error {
	switch b.kind + "." + name {
	case "deploy.erase_devices":
		return b.powered(driver.PowerOff)
	case "bios.apply_configuration":
		return bios{b}.applyConfiguration
	case "bios.factory_reset":
		return bios{b}.factoryReset
	case "bios.cache_bios_settings":
		return bios{b}.cacheSettings
	case "firmware.update":
		return firmware{b}.update
	case "raid.create_configuration":
		return raid{b}.createConfiguration
	case "raid.apply_configuration":
		return raid{b}.applyConfiguration
	case "raid.delete_configuration":
		return raid{b}.deleteConfiguration
	}
	return nil
}
