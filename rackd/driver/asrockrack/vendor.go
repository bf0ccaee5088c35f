package asrockrack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// restReset is how long a BMC is left alone that was told to restart. It restarts cold, and has no other way.
const restReset = 60 * time.Second

// Vendor is the vendor interface: the code that the firmware shows while it starts, and a restart of the BMC.
type Vendor struct{ *Driver }

// NamedSteps is empty.
func (Vendor) NamedSteps(*node.Document) []driver.Step { return nil }

// DriverMethods is empty.
func (Vendor) DriverMethods() []driver.DriverMethod { return nil }

// VendorMethods lists the methods. A restart of the BMC cannot be read back, so that it is never repeated.
func (v Vendor) VendorMethods() []driver.VendorMethod {
	return []driver.VendorMethod{
		{Method: driver.Method{Name: "post_code", HTTPMethods: []string{http.MethodGet}, Description: "Read the POST code that the machine's firmware shows: 'code' is the number, and 'status' is boot-init/pxe, uefi, grub/os or unknown."},
			Shared: true, Check: noArguments, Call: v.postCode},
		{Method: driver.Method{Name: "bmc_reset", HTTPMethods: []string{http.MethodPost}, Async: true, Description: "Restart the BMC. It restarts cold. It takes no argument."},
			Check: noArguments, Call: v.resetBMC, Once: true},
	}
}

// noArguments refuses arguments.
func noArguments(n *node.Document, args map[string]any) error {
	for name := range args {
		return fmt.Errorf("node %s: unknown argument %q: the method takes none: %w", n.Label(), name, driver.ErrInvalid)
	}
	return nil
}

func (v Vendor) postCode(ctx context.Context, _ driver.Fence, n *node.Document, _ map[string]any) (told any, err error) {
	err = v.with(ctx, nil, n, "read the POST code", func(s *session) error {
		status, code, err := s.api.PostCode(ctx)
		switch {
		case err != nil:
			return s.wire.sorted(err)
		case !s.wire.tells("postdata"):
			return s.wire.unread(errors.New("it tells no postdata"), false)
		}
		told = map[string]any{"code": code, "status": status}
		return nil
	})
	return told, err
}

func (v Vendor) resetBMC(ctx context.Context, f driver.Fence, n *node.Document, _ map[string]any) (any, error) {
	return nil, v.with(ctx, f, n, "reset the BMC", func(s *session) error { return v.reset(ctx, s) })
}

// reset restarts the BMC, and leaves it alone for a while. The provider takes an answer of 500 for a yes: some of these BMCs say so.
func (d *Driver) reset(ctx context.Context, s *session) error {
	_, err := s.api.BmcReset(ctx, "cold")
	if err = s.wire.sorted(err); err == nil {
		d.pool.Rest(s.at.Address(), d.rest)
	}
	return err
}
