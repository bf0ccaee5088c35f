package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet/cdrom"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// Firmware starts the image at its URI, or asks the network where it has none. It goes on with its boot order where the image does not
// load: with the disk, and with the network once the disk is empty.
func TestByHTTP(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Ramdisk)}, agent: stays}
	in(t, r, func(t *testing.T, b bench) {
		if _, err := b.HTTPBootURI(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("firmware without HTTP boot says %v", err)
		}
		b.cfg.Web = func(_ context.Context, url string) (cdrom.System, error) {
			switch url {
			case "http://r/agent.iso":
				return cdrom.System{CommandLine: "ipa-api-url=http://r"}, nil
			case "http://r/instance.iso":
				return cdrom.System{Kernel: "sum", CommandLine: "quiet"}, nil
			}
			return cdrom.System{}, errors.New("not found: " + url)
		}
		b.install(t)
		for _, c := range []struct {
			uri   string
			empty bool
			want  State
			runs  string
			asked bool
		}{
			{"http://r/agent.iso", false, InRamdisk, "", false},
			{"http://r/instance.iso", false, Instance, "sum", false},
			{"", false, InRamdisk, "", true},
			{"http://r/gone.iso", false, Instance, "image-1", false},
			{"http://r/gone.iso", true, InRamdisk, "", true},
		} {
			if c.empty {
				if err := b.cfg.Disk.Erase(t.Context(), disk.By{Work: "w2"}, func() error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			r.asked = 0
			if err := errors.Join(b.Stop(t.Context()), b.SetHTTPBootURI(c.uri), b.SetBootOverride(vbmc.HTTP, true)); err != nil {
				t.Fatal(err)
			}
			b.on(t)
			b.at(t, 25*time.Second, c.want)
			if image := b.Status().Image; image != c.runs || (r.asked > 0) != c.asked {
				t.Errorf("%q: it runs %q, want %q; the network was asked %d times", c.uri, image, c.runs, r.asked)
			}
			if device, once := b.BootOverride(); device != "" || once {
				t.Errorf("%q: the boot device of one boot is %q, %t after it", c.uri, device, once)
			}
		}
	})
}
