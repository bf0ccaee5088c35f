package driver

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
)

// Bootless is implemented by deploy interfaces that boot nothing. Others need a boot interface, which not every hardware type has.
type Bootless interface {
	// NeedsNoBoot does nothing; it tells these interfaces from the others.
	NeedsNoBoot()
}

// noBoot stands for the boot interface of a hardware type that has none. A machine of such a type boots as it likes.
type noBoot struct{ hardware string }

func (noBoot) Properties() map[string]string { return nil }

// Validate says that nothing here boots the machine.
func (b noBoot) Validate(n *node.Document) error {
	return fmt.Errorf("node %s: the hardware type %s has no boot interface, so that nothing here boots its machine, into a ramdisk or an instance: %w",
		n.Label(), b.hardware, ErrInvalid)
}

func (b noBoot) RamdiskOrder(n *node.Document, _ map[string]string) bootorder.Order {
	return bootorder.Refuse(fmt.Sprintf("Node %s is of the hardware type %s, which has no boot interface.", n.Label(), b.hardware))
}

func (noBoot) InstanceOrder(*node.Document, map[string]string) bootorder.Order {
	return bootorder.LocalDisk()
}

func (noBoot) PrepareRamdisk(_ context.Context, t *Task) error {
	return Unsupported(t.Node, "boot", "prepare_ramdisk")
}

func (noBoot) PrepareInstance(_ context.Context, t *Task) error {
	return Unsupported(t.Node, "boot", "prepare_instance")
}

func (noBoot) CleanUpRamdisk(context.Context, *Task) error  { return nil }
func (noBoot) CleanUpInstance(context.Context, *Task) error { return nil }
