// Package autodetect is the deploy interface "autodetect": what the instance brings says which of others is to deploy it.
//
// It may import rackd/driver, its packages instancefiles and volume, and protocol. Invariant: the choice follows from the node's fields,
// so that each rackd makes the same one. All choices clean and service by the agent of the last.
package autodetect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// Choice is a deploy interface that says which instances it is for.
type Choice interface {
	driver.Deploy
	// Supports reports whether the node's instance_info asks for it.
	Supports(n *node.Document) bool
}

// Fallback is the deploy interface of instances that ask for no other.
type Fallback interface {
	driver.Deploy
	driver.InBand
}

// Interface implements driver.Deploy. Immutable, safe for concurrent use.
type Interface struct {
	Fallback
	choices []Choice
}

// New returns the interface; of the choices the first that supports an instance deploys it.
func New(fallback Fallback, choices ...Choice) Interface { return Interface{fallback, choices} }

func (i Interface) all() []driver.Deploy {
	list := []driver.Deploy{i.Fallback}
	for _, c := range i.choices {
		list = append(list, c)
	}
	return list
}

func (i Interface) chosen(n *node.Document) driver.Deploy {
	for _, c := range i.choices {
		if c.Supports(n) {
			return c
		}
	}
	return i.Fallback
}

// Properties names what any of the interfaces reads.
func (i Interface) Properties() map[string]string {
	all := map[string]string{}
	for _, d := range i.all() {
		maps.Copy(all, d.Properties())
	}
	return all
}

// InstanceFields names what any of the interfaces reads of instance_info.
func (i Interface) InstanceFields() (fields []string) {
	for _, d := range i.all() {
		if r, reads := d.(driver.InstanceReader); reads {
			fields = append(fields, r.InstanceFields()...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// Ignored is that of the chosen interface, and what only others read.
func (i Interface) Ignored(n *node.Document) map[string]string {
	ignored, chosen := map[string]string{}, i.chosen(n)
	var reads []string
	if r, of := chosen.(driver.InstanceReader); of {
		reads = r.InstanceFields()
	}
	for _, field := range i.InstanceFields() {
		if !slices.Contains(reads, field) {
			ignored[field] = "another deploy interface reads it than the one that the instance's fields choose"
		}
	}
	if c, ignores := chosen.(driver.InstanceIgnorer); ignores {
		maps.Copy(ignored, c.Ignored(n))
	}
	return ignored
}

// Validate is that of the chosen interface. Files to boot choose none as long as the instance is not said to be a ramdisk.
func (i Interface) Validate(n *node.Document) error {
	if n.InstanceString(fieldImage) == "" && instancefiles.Given(n) && !instancefiles.Asked(n) && !volume.Boots(n) {
		return fmt.Errorf("node %s: instance_info has files to boot and no %s, and autodetect boots files alone where %s is true: set it, or use deploy_interface ramdisk: %w",
			n.Label(), fieldImage, instancefiles.Sentinel, driver.ErrInvalid)
	}
	return i.chosen(n).Validate(n)
}

// fieldImage of instance_info names an image that is written to a disk.
const fieldImage = "image_source"

// ValidateWith is that of the chosen interface.
func (i Interface) ValidateWith(h *driver.Hardware, n *node.Document) error {
	if p, paired := i.chosen(n).(driver.Paired); paired {
		return p.ValidateWith(h, n)
	}
	return nil
}

// DeploySteps are those of the chosen interface.
func (i Interface) DeploySteps(n *node.Document) []driver.Step { return i.chosen(n).DeploySteps(n) }

// TearDownSteps are those of the chosen interface.
func (i Interface) TearDownSteps(n *node.Document) []driver.Step { return i.chosen(n).TearDownSteps(n) }

// Adopts reports whether the chosen interface has something to take over.
func (i Interface) Adopts(n *node.Document) bool {
	a, adopts := i.chosen(n).(driver.Adopter)
	return adopts && a.Adopts(n)
}

// TakeOver is that of the chosen interface.
func (i Interface) TakeOver(ctx context.Context, t *driver.Task) error {
	if a, adopts := i.chosen(t.Node).(driver.Adopter); adopts {
		return a.TakeOver(ctx, t)
	}
	return nil
}
