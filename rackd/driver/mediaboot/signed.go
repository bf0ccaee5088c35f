package mediaboot

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/rackd/driver"
)

// checkSigned refuses a medium without a signed boot loader for a machine whose firmware starts signed ones alone, or is to for its
// instance. The firmware would pass it over without a word, and the flow would wait for its deadline.
func checkSigned(ctx context.Context, t *driver.Task, instance bool) error {
	if t.Node.BootMode() != "uefi" || t.Media.Signed() {
		return nil
	}
	on := instance && driver.SecureBootAsked(t.Node)
	if s, can := t.Hardware.Management().(driver.SecureBooter); can && !on {
		var err error
		if on, err = s.SecureBoot(ctx, t.Node); err != nil && !errors.Is(err, driver.ErrUnsupported) {
			return fmt.Errorf("node %s: read whether secure boot is on, for rackd's host has no signed boot loader: %w", t.Node.Label(), err)
		}
	}
	if !on {
		return nil
	}
	return fmt.Errorf("node %s: its firmware starts signed boot loaders alone (secure boot), and rackd's host has none: install Debian's shim-signed and grub-efi-amd64-signed there and start rackd again, or switch secure boot off: %w",
		t.Node.Label(), driver.ErrInvalid)
}
