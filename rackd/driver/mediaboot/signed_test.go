package mediaboot

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// secured is a BMC that tells whether secure boot is on.
type secured struct {
	*bmc
	on  bool
	err error
}

func (s secured) SecureBoot(context.Context, *node.Document) (bool, error) { return s.on, s.err }
func (s secured) SetSecureBoot(context.Context, driver.Fence, *node.Document, bool) error {
	return s.err
}

// A medium whose boot loader has no signature is refused before the machine is touched, where its firmware starts signed ones alone.
func TestUnsignedMediaAndSecureBoot(t *testing.T) {
	own := map[string]any{"capabilities": map[string]any{"secure_boot": "true"}}
	for name, c := range map[string]struct {
		unsigned, on bool
		err          error
		mode         string
		info         map[string]any
		ramdisk      bool // refused; else it is made
		instance     bool
	}{
		"signed, on":              {on: true},
		"unsigned, off":           {unsigned: true},
		"unsigned, on":            {unsigned: true, on: true, ramdisk: true, instance: true},
		"unsigned, BIOS":          {unsigned: true, on: true, mode: "bios"},
		"unsigned, no such word":  {unsigned: true, err: driver.ErrUnsupported},
		"unsigned, silent":        {unsigned: true, err: driver.ErrUnreachable, ramdisk: true, instance: true},
		"unsigned, for instances": {unsigned: true, info: own, instance: true},
	} {
		t.Run(name, func(t *testing.T) {
			files := ownFiles()
			for field, v := range c.info {
				files[field] = v
			}
			_, k, b, s := instanceTask(t, files, "", "CD/DVD", "USBStick")
			s.unsigned = c.unsigned
			k.Node.Properties = map[string]any{"capabilities": "boot_mode:" + map[bool]string{true: "uefi", false: c.mode}[c.mode == ""]}
			k.Hardware = withManagement(t, k, secured{b, c.on, c.err})
			for what, got := range map[string]struct {
				err     error
				refused bool
			}{"instance": {VirtualMedia(fine).ReadyInstance(t.Context(), k), c.instance}, "ramdisk": {VirtualMedia(fine).PrepareRamdisk(t.Context(), k), c.ramdisk}} {
				switch {
				case (got.err != nil) != got.refused:
					t.Errorf("%s: %v, want a refusal: %t", what, got.err, got.refused)
				case got.refused && c.err == nil && (!errors.Is(got.err, driver.ErrInvalid) || !strings.Contains(got.err.Error(), "shim-signed")):
					t.Errorf("%s: %v", what, got.err)
				}
			}
			if c.ramdisk && len(b.writes) > 0 {
				t.Errorf("it was refused, and the BMC was told %v", b.writes)
			}
		})
	}
}
