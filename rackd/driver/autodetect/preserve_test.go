package autodetect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/anaconda"
	"github.com/ironyard/ironyard/rackd/driver/autodetect"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// A rebuild may name an image of another kind than the deploy before, or come after a change of the deploy interface. One that would clear
// the disk is refused while the instance asks for its ephemeral partition to stay.
func TestADeployThatClearsTheDiskKeepsNoPartition(t *testing.T) {
	write := direct.New(direct.Settings{})
	container := map[string]any{"image_source": "oci://r/i", "image_disk_format": "bootc"}
	installer := map[string]any{"image_source": "http://192.0.2.1/os.tar.gz", "kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "stage2": "http://192.0.2.1/s"}
	template := map[string]any{"ks_template": "http://192.0.2.1/t"}
	for name, info := range installer {
		template[name] = info
	}
	for name, c := range map[string]struct {
		deploy driver.Deploy
		info   map[string]any
	}{
		"a container that autodetect finds":  {autodetect.New(write, direct.Bootc{Interface: write}), container},
		"a container":                        {direct.Bootc{Interface: write}, container},
		"an installer":                       {anaconda.New(write, bringup.Settings{}), installer},
		"an installer with its own template": {anaconda.New(write, bringup.Settings{}), template},
	} {
		for _, preserve := range []any{nil, false, "no", true, "True", " yes", 1.0} {
			r := drivertest.NewRig()
			r.Node.InstanceInfo = map[string]any{"ephemeral_gb": 20.0, "preserve_ephemeral": preserve}
			for field, value := range c.info {
				r.Node.InstanceInfo[field] = value
			}
			keeps := preserve != nil && preserve != false && preserve != "no"
			err := errors.Join(c.deploy.Validate(r.Node), c.deploy.(driver.Paired).ValidateWith(r.Task(networkboot.IPXE()).Hardware, r.Node))
			if refused := errors.Is(err, driver.ErrInvalid) && strings.Contains(err.Error(), "preserve_ephemeral"); refused != keeps || err != nil && !refused {
				t.Errorf("%s, preserve_ephemeral %v: %v", name, preserve, err)
			}
		}
	}
}
