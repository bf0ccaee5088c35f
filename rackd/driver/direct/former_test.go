package direct

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

// loading is firmware that loads URLs, too.
type loading struct{ *firmware }

func (l loading) SetHTTPBoot(_ context.Context, f driver.Fence, _ *node.Document, url string, persistent bool) error {
	l.log = append(l.log, fmt.Sprintf("load %q %t", url, persistent))
	return f.Check()
}

// setless is a management interface that sets no volumes.
type setless struct{ driver.Management }

// An instance boots at each start what the boot interface of its deploy has told the machine. In maintenance the node gets other
// interfaces. Whichever those are, an undeploy leaves the next owner of the machine nothing of it.
func TestWhatAnotherBootInterfaceHasSetIsTakenBack(t *testing.T) {
	clear, disk := []string{"clear", "boot disk true"}, []string{"boot disk true"}
	tearDown := New(Settings{})
	for name, c := range map[string]struct {
		boot   driver.Boot
		deploy driver.Deploy
		set    string
		info   map[string]any
		lacks  bool
		want   []string
		says   string
	}{
		"a volume, ipxe":                         {boot: networkboot.IPXE(), set: "iscsiboot", want: clear},
		"a volume, pxe":                          {boot: networkboot.PXE(), set: "iscsiboot", want: clear},
		"a volume, ilo-pxe":                      {boot: networkboot.PXE().ByFirmware(), set: "iscsiboot", want: clear},
		"a volume, virtual media":                {boot: mediaboot.VirtualMedia(nil), set: "iscsiboot", want: clear},
		"a volume, noop":                         {boot: networkboot.IPXE(), deploy: none.Deploy{Former: tearDown}, set: "iscsiboot", want: clear},
		"a volume, no way to take it":            {boot: networkboot.IPXE(), set: "iscsiboot", lacks: true, says: "not cleaned up: the volume that the machine's firmware attaches"},
		"a medium, ipxe":                         {boot: networkboot.IPXE(), set: "cdrom", want: disk},
		"a medium, noop":                         {boot: networkboot.IPXE(), deploy: none.Deploy{Former: tearDown}, set: "cdrom", info: map[string]any{"boot_iso": "http://192.0.2.1/i.iso"}, want: disk},
		"a URL, http-ipxe":                       {boot: networkboot.HTTPIPXE(), set: "uefihttp", want: []string{`load "" true`}},
		"the network, ipxe":                      {boot: networkboot.IPXE(), set: "pxe"},
		"noop, which nothing of ours has booted": {boot: networkboot.IPXE(), deploy: none.Deploy{Former: tearDown}},
		"noop, a request's device":               {boot: networkboot.IPXE(), deploy: none.Deploy{Former: tearDown}, set: "cdrom"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, f := volumed(t, mediaboot.VirtualMedia(nil), "uefi")
			f.target = &driver.ISCSITarget{}
			var m driver.Management = loading{f}
			if c.lacks {
				m = setless{f.Management}
			}
			r := newRig()
			k := withMedia(t, r, c.boot, func(driver.Management) driver.Management { return m })
			r.Node.BootSet, r.Node.InstanceInfo = c.set, c.info
			deploy := c.deploy
			if deploy == nil {
				deploy = tearDown
			}
			if _, err := walk(t, r, k, deploy.TearDownSteps(r.Node)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(f.log, c.want) || c.says != "" && !strings.Contains(strings.Join(r.Phases, "\n"), c.says) {
				t.Errorf("the BMC was told %q, want %q; the history says %q", f.log, c.want, r.Phases)
			}
		})
	}
}

// A rebuild by another boot interface gives the instance its boot device, and leaves no volume in the firmware beside it.
func TestARebuildTakesTheVolumeOfAnotherBootInterface(t *testing.T) {
	for name, c := range map[string]struct {
		boot driver.Boot
		mode string
		want []string
	}{
		"ipxe":                   {networkboot.IPXE(), "uefi", []string{"clear", "boot pxe true"}},
		"ilo-pxe, by BIOS now":   {networkboot.PXE().ByFirmware(), "bios", []string{"clear", "boot pxe true"}},
		"ilo-pxe, which goes on": {networkboot.PXE().ByFirmware(), "uefi", []string{setIt, "boot iscsiboot true"}},
	} {
		_, k, f := volumed(t, c.boot, c.mode)
		k.Node.BootSet = "iscsiboot"
		if err := c.boot.PrepareInstance(t.Context(), k); err != nil || !slices.Equal(f.log, c.want) {
			t.Errorf("%s: %v, writes %q, want %q", name, err, f.log, c.want)
		}
	}
}
