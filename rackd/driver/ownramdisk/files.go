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
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Fields with Ironic's names: of driver_info, and ParamsField of instance_info too.
const (
	KernelField  = "deploy_kernel"
	RamdiskField = "deploy_ramdisk"
	ParamsField  = "kernel_append_params"
)

// Properties names the fields.
func Properties() map[string]string {
	return map[string]string{
		KernelField:  "URL (http, https, file, tftp) of the ramdisk's kernel. Default: the rackd's own. Optional.",
		RamdiskField: "URL of the ramdisk, to be given together with " + KernelField + ". Optional.",
		ParamsField:  "Kernel parameters for the ramdisk. The word %default% stands for the rackd's own. Parameters that say which servers the agent calls and trusts are refused. Optional, also in instance_info, which counts in a deploy, a rebuild and a rescue.",
	}
}

// Load is what the node's machine loads, with what Fetch has left in the work's facts.
func Load(n *node.Document, facts map[string]string) bootorder.Load {
	return bootorder.Load{
		Kernel:    bootorder.File{URL: n.DriverString(KernelField), ID: facts[driver.FactKernel]},
		Initramfs: bootorder.File{URL: n.DriverString(RamdiskField), ID: facts[driver.FactRamdisk]},
		Params:    params(n),
	}
}

// Validate checks the fields. Of the URLs' schemes, those in unless are refused, with the reason why.
func Validate(n *node.Document, why string, unless ...string) error {
	return errors.Join(validateFiles(n, why, unless), validateParams(n))
}

// validateFiles checks the URLs of a node's own kernel and ramdisk.
func validateFiles(n *node.Document, why string, unless []string) error {
	kernel, ramdisk := n.DriverString(KernelField), n.DriverString(RamdiskField)
	if (kernel == "") != (ramdisk == "") {
		return fmt.Errorf("node %s: driver_info has only one of %s and %s: give both or neither: %w", n.Label(), KernelField, RamdiskField, driver.ErrInvalid)
	}
	for field, text := range map[string]string{KernelField: kernel, RamdiskField: ramdisk} {
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		switch {
		case err != nil, u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" && u.Scheme != "tftp", u.Path == "", (u.Host == "") != (u.Scheme == "file"):
			return fmt.Errorf("node %s: driver_info %s must be an http, https, tftp or file URL: %w", n.Label(), field, driver.ErrInvalid)
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
	for field, fact := range map[string]string{KernelField: driver.FactKernel, RamdiskField: driver.FactRamdisk} {
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
