package ilo

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// One vendor method puts an image into the virtual CD drive and restarts the machine from it. Names are Ironic's.

const (
	bootIntoISO = "boot_into_iso"
	argISO      = "boot_iso_href"
)

// virtualCD is the drive that the image goes into, and the boot device, as the API names both.
const virtualCD = "cdrom"

// Booted is a machine as boot_into_iso restarts it.
type Booted interface {
	AttachMedia(ctx context.Context, f driver.Fence, n *node.Document, mediaType, url string) error
	SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, d driver.BootDevice, persistent bool) error
	SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error
}

// ISO boots machines into images of CDs.
type ISO struct {
	Machine Booted
	// Reach returns an error for a URL that an iLO is not told to read; nil: any may be.
	Reach func(ctx context.Context, url string) error
}

// with adds the method to those of a vendor interface.
func (i ISO) with(methods []driver.VendorMethod) []driver.VendorMethod {
	return append(methods, driver.VendorMethod{Method: driver.Method{Name: bootIntoISO, HTTPMethods: []string{http.MethodPost}, Async: true,
		Description: "Put an image of a CD into the virtual drive and restart the machine from it, once. The node has to be manageable or in maintenance. " +
			"Required argument: 'boot_iso_href' - HTTP(S) URL of the image. The image stays in the drive."}, Check: checkISO, Call: i.boot, Once: true})
}

// checkISO refuses a call in Ironic's words.
func checkISO(n *node.Document, args map[string]any) error {
	href, is := args[argISO].(string)
	switch at, err := url.Parse(href); {
	case n.State != provision.Manageable && !n.Maintenance:
		return driver.Refuse("The requested action '%s' can be performed only when node %s is in manageable state or in 'maintenance' mode", bootIntoISO, n.UUID)
	case !is || href == "":
		return driver.Refuse("Error validating input for %s vendor passthru. Some parameters were not provided: ['%s']", bootIntoISO, argISO)
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return driver.Refuse("'%s' is no HTTP or HTTPS URL. No rack asks Glance or Swift: give the URL of the image", argISO)
	}
	for name := range args {
		if name != argISO {
			return driver.Refuse("unknown argument %.40q: there is %s", name, argISO)
		}
	}
	return nil
}

// boot inserts the image, sets the boot device of the next start, and restarts the machine. What fails says what was done before.
func (i ISO) boot(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
	href, _ := args[argISO].(string)
	if i.Reach != nil {
		if err := i.Reach(ctx, href); err != nil {
			return nil, fmt.Errorf("node %s: boot into the image: the iLO is not told to read it: its %w: %w", n.Label(), err, driver.ErrInvalid)
		}
	}
	if err := driver.Settle(func() error { return i.Machine.AttachMedia(ctx, f, n, virtualCD, href) }); err != nil {
		return nil, fmt.Errorf("node %s: put the image into the virtual CD drive (the machine was not restarted): %w", n.Label(), driver.Unnamed(n, err))
	}
	if err := driver.Settle(func() error { return i.Machine.SetBootDevice(ctx, f, n, virtualCD, false) }); err != nil {
		return nil, fmt.Errorf("node %s: have the machine boot from the virtual CD drive (the image is in it, and the machine was not restarted): %w", n.Label(), driver.Unnamed(n, err))
	}
	if err := i.Machine.SetPower(ctx, f, n, driver.Rebooting); err != nil {
		return nil, fmt.Errorf("node %s: restart the machine (the image is in the virtual CD drive, and the next start is from it): %w", n.Label(), driver.Unnamed(n, err))
	}
	return nil, nil
}

// Vendor is the vendor interface of iLOs that speak Redfish.
type Vendor struct {
	redfish.Vendor
	ISO ISO
}

// VendorMethods lists the methods.
func (v Vendor) VendorMethods() []driver.VendorMethod { return v.ISO.with(v.Vendor.VendorMethods()) }
