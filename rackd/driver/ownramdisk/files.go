// Package ownramdisk is what a node's fields say of the ramdisk that it boots: kernel and ramdisk of its own, and
// parameters for the kernel. Each boot interface passes them in its own way.
//
// It may import rackd/driver, rackd/bootorder and protocol. Invariant: no field says whom the agent calls and believes.
package ownramdisk

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Fields with Ironic's names: of driver_info, and ParamsField of instance_info too.
const (
	KernelField   = "deploy_kernel"
	RamdiskField  = "deploy_ramdisk"
	RescueKernel  = "rescue_kernel"
	RescueRamdisk = "rescue_ramdisk"
	ParamsField   = "kernel_append_params"
	// ImageField names a ready image of the ramdisk, for boot interfaces that take one.
	ImageField = "deploy_iso"
)

// Properties names the fields.
func Properties() map[string]string {
	return map[string]string{
		KernelField:   "URL (http, https, file, tftp) of the ramdisk's kernel. Default: the rackd's, by the node's cpu_arch and resource class. Optional.",
		RamdiskField:  "URL of the ramdisk, to be given together with " + KernelField + ". Optional.",
		RescueKernel:  "URL (http, https, file, tftp) of the kernel of the ramdisk for rescues. Default: the rackd's, by the node's cpu_arch and resource class. Optional.",
		RescueRamdisk: "URL of the ramdisk for rescues, to be given together with " + RescueKernel + ". Optional.",
		ParamsField:   "Kernel parameters for the ramdisk. The word %default% stands for the rackd's own. Parameters that say which servers the agent calls and trusts are refused. Optional, also in instance_info, which counts in a deploy, a rebuild and a rescue.",
	}
}

// Rack says which ramdisks the rack has for a node. Immutable, safe for concurrent use.
type Rack interface {
	// Lacks says why the rack has no kernel and ramdisk for the node's machine, or for its rescue; nil: it has them.
	Lacks(n *node.Document, rescue bool) error
	// LacksProgram is Lacks for a ramdisk as one program that firmware starts.
	LacksProgram(n *node.Document, rescue bool) error
	// Arch is the architecture of the rack's kernel for the node's machine, or for its rescue; empty: it is not known.
	Arch(n *node.Document, rescue bool) string
	// Identity tells the rack's ramdisks of now from those of before and of other racks.
	Identity() string
}

// Arch is the architecture of a node's machine: as its cpu_arch says, or else as the kernel that the rack has for it does; empty: nothing
// says it.
func Arch(n *node.Document, rack Rack, rescue bool) string {
	own := n.DriverString(KernelField)
	if rescue {
		own = n.DriverString(RescueKernel)
	}
	arch, _ := n.Properties["cpu_arch"].(string)
	if arch == "" && rack != nil && own == "" {
		arch = rack.Arch(n, rescue)
	}
	return arch
}

// Load is what the node's machine loads, with what Fetch has left in the work's facts.
func Load(n *node.Document, facts map[string]string) bootorder.Load {
	kernel, initramfs := fields(n)
	return bootorder.Load{
		Kernel:    bootorder.File{URL: n.DriverString(kernel), ID: facts[driver.FactKernel]},
		Initramfs: bootorder.File{URL: n.DriverString(initramfs), ID: facts[driver.FactRamdisk]},
		Params:    params(n), Rescue: Rescued(n),
	}
}

// Rescued reports whether the ramdisk is that of a rescue.
func Rescued(n *node.Document) bool {
	return n.State.In([]provision.State{provision.Rescuing, provision.RescueWait})
}

// fields are those of driver_info that name the kernel and the ramdisk which the node boots in its state. As in Ironic, a rescue
// uses no file of deploys.
func fields(n *node.Document) (kernel, ramdisk string) {
	if Rescued(n) {
		return RescueKernel, RescueRamdisk
	}
	return KernelField, RamdiskField
}

// ValidateRescue checks the URLs of a node's own kernel and ramdisk for rescues. A node that names none needs those of the rack; a nil
// rack has none. Of the URLs' schemes, those in unless are refused, with the reason why.
func ValidateRescue(n *node.Document, rack Rack, why string, unless ...string) error {
	if n.DriverString(RescueKernel) == "" && n.DriverString(RescueRamdisk) == "" {
		lacks := errors.New("this rackd has no ramdisk for rescues (--rescue-ramdisk)")
		if rack != nil {
			lacks = rack.Lacks(n, true)
		}
		if lacks != nil {
			return fmt.Errorf("node %s: driver_info has no %s and %s, and %w: %w", n.Label(), RescueKernel, RescueRamdisk, lacks, driver.ErrInvalid)
		}
	}
	return validateFiles(n, RescueKernel, RescueRamdisk, why, unless)
}

// Validate checks the fields. A node without files of its own needs those of the rack; of a nil rack nothing is known. Of the URLs'
// schemes, those in unless are refused, with the reason why.
func Validate(n *node.Document, rack Rack, why string, unless ...string) error {
	if rack != nil && n.DriverString(KernelField) == "" && n.DriverString(RamdiskField) == "" {
		if lacks := rack.Lacks(n, false); lacks != nil {
			return fmt.Errorf("node %s: driver_info has no %s and %s, and %w: %w", n.Label(), KernelField, RamdiskField, lacks, driver.ErrInvalid)
		}
	}
	return errors.Join(validateFiles(n, KernelField, RamdiskField, why, unless), ValidateParams(n))
}

// validateFiles checks the URLs of a node's own kernel and ramdisk.
func validateFiles(n *node.Document, kernelField, ramdiskField, why string, unless []string) error {
	kernel, ramdisk := n.DriverString(kernelField), n.DriverString(ramdiskField)
	if (kernel == "") != (ramdisk == "") {
		return fmt.Errorf("node %s: driver_info has only one of %s and %s: give both or neither: %w", n.Label(), kernelField, ramdiskField, driver.ErrInvalid)
	}
	for field, text := range map[string]string{kernelField: kernel, ramdiskField: ramdisk} {
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		switch {
		case err != nil, u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" && u.Scheme != "oci" && u.Scheme != "tftp", u.Path == "", (u.Host == "") != (u.Scheme == "file"):
			return fmt.Errorf("node %s: driver_info %s must be an http, https, tftp, oci or file URL: %w", n.Label(), field, driver.ErrInvalid)
		case slices.Contains(unless, u.Scheme):
			return fmt.Errorf("node %s: driver_info %s is a URL of scheme %s: %s: %w", n.Label(), field, u.Scheme, why, driver.ErrInvalid)
		case u.User != nil:
			return fmt.Errorf("node %s: driver_info %s contains a user name: any machine on the network can read boot scripts: %w", n.Label(), field, driver.ErrInvalid)
		}
	}
	return nil
}

// Fetch brings the node's own kernel and ramdisk into the rack's cache, before
// the machine is touched. What only TFTP gives, the machine loads by itself.
func Fetch(ctx context.Context, t *driver.Task) error {
	kernel, ramdisk := fields(t.Node)
	for field, fact := range map[string]string{kernel: driver.FactKernel, ramdisk: driver.FactRamdisk} {
		delete(t.Facts, fact)
		text := t.Node.DriverString(field)
		if u, err := url.Parse(text); err != nil || text == "" || u.Scheme == "tftp" {
			continue
		}
		id, err := t.Images.Latest(ctx, text)
		if err != nil {
			return fmt.Errorf("node %s: get driver_info %s into the rack's cache: %w", t.Node.Label(), field, err)
		}
		t.Facts[fact] = id
	}
	return nil
}
