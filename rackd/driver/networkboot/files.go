package networkboot

import (
	"context"
	"fmt"
	"net/url"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
)

// rescued reports whether the ramdisk is that of a rescue.
func rescued(n *node.Document) bool {
	return n.State.In([]provision.State{provision.Rescuing, provision.RescueWait})
}

// fields are those of driver_info that name the kernel and the ramdisk which the node boots in its state. As in Ironic, a rescue
// uses no file of deploys.
func fields(n *node.Document) (kernel, ramdisk string) {
	if rescued(n) {
		return rescueKernel, rescueRamdisk
	}
	return kernelField, ramdiskField
}

// ValidateRescue checks the URLs of a node's own kernel and ramdisk for rescues.
func (Interface) ValidateRescue(n *node.Document, racks bool) error {
	if !racks && n.DriverString(rescueKernel) == "" && n.DriverString(rescueRamdisk) == "" {
		return fmt.Errorf("node %s: driver_info has no %s and %s, and this rackd has no ramdisk for rescues (--rescue-ramdisk): %w", n.Label(), rescueKernel, rescueRamdisk, driver.ErrInvalid)
	}
	return validateFiles(n, rescueKernel, rescueRamdisk)
}

// validateFiles checks the URLs of a node's own kernel and ramdisk.
func validateFiles(n *node.Document, kernelField, ramdiskField string) error {
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
		case err != nil, u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" && u.Scheme != "tftp", u.Path == "", (u.Host == "") != (u.Scheme == "file"):
			return fmt.Errorf("node %s: driver_info %s must be an http, https, tftp or file URL: %w", n.Label(), field, driver.ErrInvalid)
		case u.User != nil:
			return fmt.Errorf("node %s: driver_info %s contains a user name: any machine on the network can read boot scripts: %w", n.Label(), field, driver.ErrInvalid)
		}
	}
	return nil
}

// fetchFiles brings the node's own kernel and ramdisk into the rack's cache, before
// the machine is touched. What only TFTP gives, the machine loads by itself.
func fetchFiles(ctx context.Context, t *driver.Task) error {
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
