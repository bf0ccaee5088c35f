package bootweb

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// maker makes kickstarts.
type maker struct{ fail error }

func (k maker) Kickstart(_ context.Context, m netboot.Machine, image string) (string, error) {
	return "node " + m.UUID + " image " + image, k.fail
}

// An installer gets its kickstart and is sent to its files: at the machine's address, with the id of its boot, while it is to run.
func TestFilesOfInstallers(t *testing.T) {
	order := bootorder.Install(bootorder.Load{Instance: true, Installer: &bootorder.Installer{Ending: ".tgz", Image: bootorder.File{URL: "http://h/images/i"}, Stage2: bootorder.File{URL: "http://h/images/s"}}})
	tree := bootorder.Install(bootorder.Load{Instance: true, Installer: &bootorder.Installer{Repository: "http://mirror/os/"}})
	const at = "/boot/installer/" + id + "/s3cret/"
	known, other := []netip.Addr{netip.MustParseAddr("192.0.2.1")}, []netip.Addr{netip.MustParseAddr("192.0.2.7")} // of httptest's requests, and another
	for name, c := range map[string]struct {
		path   string
		change func(*netboot.Machine)
		fail   error
		status int
		want   string
	}{
		"kickstart":           {at + "ks.cfg", nil, nil, 200, "image http://h/boot/installer/" + id + "/s3cret/image.tgz"},
		"of a repository":     {at + "ks.cfg", func(m *netboot.Machine) { m.Order = tree }, nil, 200, "image http://mirror/os/"},
		"of the machine":      {at + "ks.cfg", func(m *netboot.Machine) { m.Addresses = known }, nil, 200, "node " + id},
		"that fails":          {at + "ks.cfg", nil, errors.New("s3cret password"), 503, "cannot be made now"},
		"stage 2":             {at + "stage2/images/install.img", nil, nil, 302, "http://h/images/s"},
		"stage 2, live":       {at + "stage2/LiveOS/squashfs.img", nil, nil, 302, "http://h/images/s"},
		"no tree":             {at + "stage2/.treeinfo", nil, nil, 404, ""},
		"image":               {at + "image.tgz", nil, nil, 302, "http://h/images/i"},
		"another ending":      {at + "image.img", nil, nil, 404, ""},
		"a repository's":      {at + "image", func(m *netboot.Machine) { m.Order = tree }, nil, 404, ""},
		"another boot":        {"/boot/installer/" + id + "/guess/ks.cfg", nil, nil, 404, ""},
		"another node":        {"/boot/installer/11111111-1111-4111-8111-111111111112/s3cret/ks.cfg", nil, nil, 404, ""},
		"no node":             {"/boot/installer/x/s3cret/ks.cfg", nil, nil, 400, ""},
		"no boot":             {at + "ks.cfg", func(m *netboot.Machine) { m.BootID = "" }, nil, 404, ""},
		"an agent's ramdisk":  {at + "ks.cfg", func(m *netboot.Machine) { m.Order = bootorder.Ramdisk(bootorder.Load{}) }, nil, 404, ""},
		"files on their way":  {at + "ks.cfg", func(m *netboot.Machine) { m.Order = bootorder.Later("soon") }, nil, 503, ""},
		"another machine":     {at + "ks.cfg", func(m *netboot.Machine) { m.Addresses = other }, nil, 403, ""},
		"an unheard machine":  {at + "ks.cfg", func(m *netboot.Machine) { m.Hears = true }, nil, 503, ""},
		"the instance's turn": {at + "ks.cfg", func(m *netboot.Machine) { m.Order = bootorder.LocalDisk() }, nil, 404, ""},
	} {
		r, h := newRack(t, func(cfg *Config) { cfg.Kickstarts = maker{c.fail} })
		if r.machine.Order, r.machine.BootID = order, "s3cret"; c.change != nil {
			c.change(&r.machine)
		}
		w := ask(h, http.MethodGet, c.path)
		if got := w.Body.String() + w.Header().Get("Location"); w.Code != c.status || !strings.Contains(got, c.want) || strings.Contains(got, "password") {
			t.Errorf("%s: %d %s, want %d %q", name, w.Code, got, c.status, c.want)
		}
	}
}
