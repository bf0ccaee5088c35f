package autodetect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/autodetect"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/ramdisk"
)

var (
	_ driver.Deploy  = autodetect.Interface{}
	_ driver.InBand  = autodetect.Interface{}
	_ driver.Adopter = autodetect.Interface{}
)

// What the instance brings says which interface deploys it; what fits none is a disk's image.
func TestTheInstanceChooses(t *testing.T) {
	write := direct.New(direct.Settings{})
	auto := autodetect.New(write, ramdisk.New(write, bringup.Settings{}), direct.Bootc{Interface: write})
	for name, c := range map[string]struct {
		info    map[string]any
		steps   int
		adopts  bool
		refusal string
	}{
		"an image":               {map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32)}, 6, false, ""},
		"nothing":                {nil, 6, false, "image_source"},
		"a ramdisk":              {map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "ironic_ramdisk_deploy": true}, 1, true, ""},
		"a ramdisk, not said so": {map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r"}, 6, false, "image_source"},
		"a CD":                   {map[string]any{"boot_iso": "http://192.0.2.1/i", "ironic_ramdisk_deploy": "True"}, 1, true, ""},
		"a container":            {map[string]any{"image_source": "oci://r/i", "image_disk_format": "bootc"}, 5, false, ""},
		"a registry's file":      {map[string]any{"image_source": "oci://r/i"}, 6, false, ""},
		"a CD of TFTP":           {map[string]any{"boot_iso": "tftp://192.0.2.1/i", "ironic_ramdisk_deploy": "True"}, 1, true, "tftp"},
	} {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = c.info
		err := errors.Join(auto.Validate(r.Node), auto.ValidateWith(r.Task(networkboot.IPXE()).Hardware, r.Node))
		if (err == nil) != (c.refusal == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s: %v, want %q", name, err, c.refusal)
		}
		if steps := auto.DeploySteps(r.Node); len(steps) != c.steps {
			t.Errorf("%s: %d steps, want %d", name, len(steps), c.steps)
		}
		if auto.Adopts(r.Node) != c.adopts {
			t.Errorf("%s: adopts %t", name, !c.adopts)
		}
		if c.adopts && c.refusal == "" {
			if err := auto.TakeOver(t.Context(), r.Task(networkboot.IPXE())); err != nil || len(r.Observed.InstanceFiles) == 0 {
				t.Errorf("%s: taken over: %v, %v", name, r.Observed.InstanceFiles, err)
			}
		}
	}
	if fields := auto.InstanceFields(); !slices.Contains(fields, "boot_iso") || !slices.Contains(fields, "image_source") || !slices.IsSorted(fields) {
		t.Errorf("fields %q", fields)
	}
}
